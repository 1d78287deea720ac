"""``python -m isopivot.cli`` is ``isopivot``."""

from isopivot.cli import main

main()
