"""``gondwana doctor``: what this machine has for parallel runs, tried rather than guessed."""

from gondwana.cli.doctor.command import doctor as doctor
