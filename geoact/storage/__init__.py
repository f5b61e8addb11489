"""What lies on the disk.

files.py        files and folders that are never half-written, and reading them while they are replaced
locks.py        one process at a time
runs.py         a run's directory
recorder.py     a run's metrics: metrics.jsonl, TensorBoard, Weights & Biases
events.py       TensorBoard's file format
checkpoints.py  all that a run needs to go on exactly
"""
