"""Where the Tritons are: a list, a file, a name in DNS, a registry on Modal."""
