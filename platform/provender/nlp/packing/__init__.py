"""Several short examples in one row, so that hardly a token of a batch is padding.

``fit`` decides which examples share a row, ``numpy_rows`` and ``tensor_rows`` lay them out (in
numpy and as a TensorFlow graph, with the same result), ``attention`` keeps them apart in a model,
``dataset`` puts it all behind a `tf.data.Dataset`.
"""
