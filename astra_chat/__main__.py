"""`python -m astra_chat` does what the command `astra-chat` does."""

from astra_chat.cli import main

main()
