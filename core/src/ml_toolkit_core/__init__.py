"""The backend-neutral core of ml-toolkit; start reading at :mod:`.hookspecs`."""
