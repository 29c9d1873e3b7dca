"""The tf.data service: what its jobs are called, its dispatcher and its workers."""
