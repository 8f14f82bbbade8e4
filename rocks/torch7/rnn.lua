-- rnn.lua - the package rnn, whose modules are fields of Torch7's nn. It has recurrent modules, for
-- which each call is a step of a sequence. It also has modules and criterions that take whole
-- sequences.

local nn = require "tlua.torch7.nn"

require "tlua.torch7.rnn_steps"
require "tlua.torch7.rnn_sequences"
require "tlua.torch7.rnn_more"
require "tlua.torch7.rnn_noise"
require "tlua.torch7.dpnn"

return nn
