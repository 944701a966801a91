"""Reading and writing the files of a training: the folder's description, checkpoints, snapshots and log."""
