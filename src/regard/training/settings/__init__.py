"""The settings of a training: those that the user gives, and those derived from the corpus and the device."""
