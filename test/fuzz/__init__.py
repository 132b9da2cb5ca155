"""A fuzzer: random networks of every format and random options, each stage checked against an independent program.

    python test/fuzz --graphs 500 --seed 0

`onnx_files.py`, `tensorflow_files.py` and `caffe_files.py` make a model and what onnxruntime, TensorFlow or OpenCV computes with
it; `choices.py` draws options; `checks.py` runs every stage; `shrinking.py` makes what
fails smaller; `campaign.py` runs many seeds in processes and counts.
"""
