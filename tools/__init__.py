"""What is measured: the kernel judge, usable alone. Imports nothing of ours outside tools."""
