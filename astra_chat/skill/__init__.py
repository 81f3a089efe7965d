"""What coding agents are told about Astra: SKILL.md and a snippet for AGENTS.md. `astra-chat skill`
(cli/skill.py) writes them."""
