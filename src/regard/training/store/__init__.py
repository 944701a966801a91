"""Reading and writing the files of a training: settings, checkpoints, snapshots of parameters, and log."""
