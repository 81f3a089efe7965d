"""`python -m astra_chat` is `astra-chat`."""

from astra_chat.cli.main import main

if __name__ == "__main__":
    main()
