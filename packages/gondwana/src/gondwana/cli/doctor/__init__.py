"""``gondwana doctor``: an examination of this machine for parallel runs, by trials."""

from gondwana.cli.doctor.command import doctor as doctor
