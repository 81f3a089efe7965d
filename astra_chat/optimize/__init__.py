"""A kernel file of the user's own repository, from the file to a patch for it.

own_folder  the folder of it all: task, runs, patch, evidence
repository  where the file stands in a git repository, and what git says of it
written     patch, evidence page and what they say
"""

import astra_chat.tools  # noqa: F401  # says so where astra-vgpu is missing
