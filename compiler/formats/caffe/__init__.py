"""Caffe: its messages, the two files of a net, and carried layers."""
