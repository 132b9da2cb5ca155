"""What nets of Caffe are made of, and what runs them."""

from ...frontends.caffe.conftest import assert_close as assert_close
from ...frontends.caffe.conftest import caffe as caffe
from ...frontends.caffe.conftest import new_net as new_net
