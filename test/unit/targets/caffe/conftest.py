"""What nets of Caffe are made of, and what runs them."""

from ...frontends.caffe.conftest import assert_close as assert_close, caffe as caffe, new_net as new_net
