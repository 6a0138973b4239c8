"""`python -m featscope` is `featscope`."""

from featscope.cli.main import main

main()
