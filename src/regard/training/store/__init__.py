"""What a training keeps on disk: its folder, checkpoints, snapshots and log."""
