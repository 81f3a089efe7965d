"""`python -m astra_chat.tools.virtual_gpu`: the old name of `astra-vgpu`, for one more release."""

import sys

from astra_vgpu.__main__ import main

if __name__ == "__main__":
    print("from the next release on, this command is available only as astra-vgpu", file=sys.stderr)
    raise SystemExit(main())
