-- RNN.lua - RNN, LSTM and GRU over whole sequences, of several layers, in one or both directions.
--
-- The rows of the weights contain the gates in PyTorch's order: input, forget, cell, output for
-- LSTM, and reset, update, new for GRU. The layers call the operators torch.rnn_tanh, rnn_relu,
-- lstm and gru. On CUDA these use cuDNN if it supports the case and torch.backends.cudnn allows it.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"
local recurrent = require "tlua.nn.modules.recurrent"
local PackedSequence = require "tlua.nn.utils.rnn".PackedSequence

local modes <const> = {
   RNN_TANH = {operator = "rnn_tanh", gates = 1}, RNN_RELU = {operator = "rnn_relu", gates = 1},
   LSTM = {operator = "lstm", gates = 4}, GRU = {operator = "gru", gates = 3},
}

-- Arguments of recurrent.states: the names of the initial states that a layer takes.
local state_names <const>, lstm_names <const> = {"h0"}, {"h0", "c0"}
local usage <const> = "local output, state = lstm(input, state) returns and takes that table"

local options <const> = [[num_layers: layers = 1, %sbias: boolean = true,
   batch_first: boolean = false, dropout: number = 0, bidirectional: boolean = false,
   proj_size: count = 0, device: device?, dtype: string?]]

-- The base of RNN, LSTM and GRU; `mode` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
--
--    local rnn = torch.nn.RNNBase("GRU", 4, 8)
--    print(table.unpack(rnn.weight_ih_l0.shape))
--    --> 24	4
---@class nn.RNNBase: nn.Module
---@field mode string  "RNN_TANH", "RNN_RELU", "LSTM" or "GRU"
---@field proj_size integer  the size of the outputs of an LSTM with projections; 0 for none
---@field weight_ih_l0 Tensor  (gates * hidden_size, input_size) of layer 0; l1, l2, ... follow, and
--- with `bidirectional` each has a counterpart whose name ends in `_reverse`
---@field weight_hh_l0 Tensor  (gates * hidden_size, proj_size or, without projection, hidden_size)
---@field bias_ih_l0 Tensor?  (gates * hidden_size)
---@field bias_hh_l0 Tensor?  (gates * hidden_size)
---@overload fun(mode: string, input_size: integer, hidden_size: integer, options?): nn.RNNBase
local RNNBase, parent = class.class("nn.RNNBase", Module)

local take_base = args.signature("nn.RNNBase(mode: string, input_size: count, hidden_size: count, "
   .. options:format "" .. ")")

-- Raises an error if the options do not describe a valid network.
local function check(name, a)
   local function want(what, fits, expected)
      if not fits then args.refuse(name, what, expected, a[what]) end
   end
   want("input_size", a.input_size >= 1, "at least 1")
   want("hidden_size", a.hidden_size >= 1, "at least 1")
   want("num_layers", a.num_layers >= 1, "at least 1")
   want("dropout", a.dropout >= 0 and a.dropout <= 1, "a probability from 0 to 1")
   want("proj_size", a.proj_size == 0 or a.mode == "LSTM", "0, since only an LSTM has a projection")
   want("proj_size", a.proj_size < a.hidden_size,
      ("less than hidden_size, which is %d"):format(a.hidden_size))
end

-- Returns a suffix for parameter names, such as "_l0" or "_l0_reverse". PyTorch's parameters have
-- the same names, so that states can be exchanged.
local function suffix(layer, direction)
   return ("_l%d%s"):format(layer - 1, direction == 2 and "_reverse" or "")
end

-- Calls visit(suffix, layer) for each layer and direction, where `suffix` ends the names of its
-- parameters.
local function each_line(self, visit)
   for layer = 1, self.num_layers do
      for direction = 1, self.bidirectional and 2 or 1 do visit(suffix(layer, direction), layer) end
   end
end

-- Returns the names of a layer's parameters for one direction, in the order that the operators
-- take.
local function names(self, tail)
   local list = {"weight_ih" .. tail, "weight_hh" .. tail}
   if self.bias then
      list[3], list[4] = "bias_ih" .. tail, "bias_hh" .. tail
   end
   if self.proj_size > 0 then list[#list + 1] = "weight_hr" .. tail end
   return list
end

local function init(self, a)
   parent.__init(self)
   check(torch.type(self), a)
   for _, name in ipairs {"mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first",
      "dropout", "bidirectional", "proj_size"} do
      self[name] = a[name]
   end
   local place = {device = a.device, dtype = a.dtype}
   local rows, output = modes[a.mode].gates * a.hidden_size, recurrent.output_size(self)
   each_line(self, function(tail, layer)
      local columns = layer == 1 and a.input_size or output * (a.bidirectional and 2 or 1)
      local shapes = {
         ["weight_ih" .. tail] = {rows, columns}, ["weight_hh" .. tail] = {rows, output},
         ["bias_ih" .. tail] = {rows}, ["bias_hh" .. tail] = {rows},
         ["weight_hr" .. tail] = {output, a.hidden_size},
      }
      for _, name in ipairs(names(self, tail)) do
         self[name] = Parameter(torch.empty(shapes[name], place))
      end
   end)
   self:reset_parameters()
end

function RNNBase:__init(...)
   local a = take_base(...)
   if not modes[a.mode] then
      args.refuse("nn.RNNBase", "mode", "RNN_TANH, RNN_RELU, LSTM or GRU", a.mode)
   end
   init(self, a)
end

--- Fills the parameters with uniform random values from [-b, b], where b = 1/sqrt(hidden_size).
RNNBase.reset_parameters = recurrent.reset_parameters

--- Returns the parameters of each layer and direction: weight_ih, weight_hh, and bias_ih, bias_hh
--- and weight_hr if the layer has them.
---@return Tensor[][]
function RNNBase:all_weights()
   local lines = {}
   each_line(self, function(tail)
      local line = {}
      for i, name in ipairs(names(self, tail)) do line[i] = self[name] end
      lines[#lines + 1] = line
   end)
   return lines
end

--- Does nothing, since kernels arrange the weights themselves. The method exists for programs
--- written for PyTorch.
function RNNBase:flatten_parameters() return self end

-- Returns the parameters of all layers and directions in one list.
local function flat_weights(self)
   local list = {}
   each_line(self, function(tail)
      for _, name in ipairs(names(self, tail)) do list[#list + 1] = self[name] end
   end)
   return list
end

-- Permutes the samples in each of the states.
local function permute(states, permutation)
   if not permutation then return end
   for i, state in ipairs(states) do states[i] = state:index_select(2, permutation) end
end

-- Calls the operator on a batch of sequences. Returns the output and the last states.
local function run(self, input, states, ...)
   local hx = states
   if self.mode ~= "LSTM" then hx = states[1] end
   local operator = torch[modes[self.mode].operator]
   local batch_sizes = ...
   if torch.is_tensor(batch_sizes) then
      return operator(input, batch_sizes, hx, flat_weights(self), self.bias, self.num_layers,
         self.dropout, self.training, self.bidirectional)
   end
   return operator(input, hx, flat_weights(self), self.bias, self.num_layers, self.dropout,
      self.training, self.bidirectional, batch_sizes)
end

local function check_input(self, what, input, dims, expected)
   local fits = torch.is_tensor(input) and input:dim() >= dims[1] and input:dim() <= dims[#dims]
   if not fits or input:size(-1) ~= self.input_size then
      args.refuse(torch.type(self), what, expected:format(self.input_size), input)
   end
   recurrent.check_dtype(self, what, input, "weight_ih_l0")
end

-- Returns the shapes of the initial states. They have no batch dimension if `batch` is nil.
local function state_shapes(self, batch)
   local lines = self.num_layers * (self.bidirectional and 2 or 1)
   local shapes = {{lines, batch, recurrent.output_size(self)}}
   if self.mode == "LSTM" then shapes[2] = {lines, batch, self.hidden_size} end
   if not batch then
      for i, shape in ipairs(shapes) do shapes[i] = {shape[1], shape[3]} end
   end
   return shapes
end

local function first_states(self, input, batch, ...)
   return recurrent.states(self, input, self.mode == "LSTM" and lstm_names or state_names,
      state_shapes(self, batch), usage, ...)
end

-- Returns the output and the last states of a call: the states are a table for an LSTM, otherwise a
-- tensor.
local function results(self, output, last)
   if self.mode == "LSTM" then return output, last end
   return output, last[1]
end

local function forward_packed(self, sequence, ...)
   check_input(self, "data", sequence.data, {2}, "a packed sequence of rows of size %d")
   local states = first_states(self, sequence.data, sequence.batch_sizes[1]:item(), ...)
   permute(states, sequence.sorted_indices)
   local output, last = recurrent.split(run(self, sequence.data, states, sequence.batch_sizes))
   permute(last, sequence.unsorted_indices)
   output = PackedSequence(output, sequence.batch_sizes, sequence.sorted_indices,
      sequence.unsorted_indices)
   return results(self, output, last)
end

local function forward_single(self, input, ...)
   local states = first_states(self, input, nil, ...)
   for i, state in ipairs(states) do states[i] = state:unsqueeze(2) end
   local output, last = recurrent.split(run(self, input:unsqueeze(2), states, false))
   for i, state in ipairs(last) do last[i] = state:squeeze(2) end
   return results(self, output:squeeze(2), last)
end

--- Returns the outputs of the last layer at all steps, and the last states of all layers and
--- directions. Sequences have the shape (T, N, input_size), with `batch_first` (N, T, input_size),
--- and a single sequence has (T, input_size). For a PackedSequence the outputs are also a
--- PackedSequence. A state is a tensor (layers * directions, N, size), or (layers * directions,
--- size) for a single sequence; an LSTM takes and returns the table {h, c}. The initial states are
--- zeros by default.
---@param input Tensor|nn.utils.rnn.PackedSequence
---@param ... Tensor|Tensor[]|nil  the first states: h0, of an LSTM {h0, c0}
---@return Tensor|nn.utils.rnn.PackedSequence output
---@return Tensor|Tensor[] state  h, of an LSTM {h, c}
function RNNBase:forward(input, ...)
   if torch.type(input) == "nn.utils.rnn.PackedSequence" then
      return forward_packed(self, input, ...)
   end
   check_input(self, "input", input, {2, 3},
      "a tensor of 2 or 3 dimensions, the last of size %d")
   local step_dim = input:dim() == 3 and self.batch_first and 2 or 1
   if input:size(step_dim) == 0 then
      args.refuse(torch.type(self), "input", "at least one step", input)
   end
   if input:dim() == 2 then return forward_single(self, input, ...) end
   local states = first_states(self, input, input:size(3 - step_dim), ...)
   return results(self, recurrent.split(run(self, input, states, self.batch_first)))
end

function RNNBase:extra_repr()
   local list = {("%d, %d"):format(self.input_size, self.hidden_size)}
   if self.proj_size > 0 then list[#list + 1] = "proj_size=" .. self.proj_size end
   if self.num_layers ~= 1 then list[#list + 1] = "num_layers=" .. self.num_layers end
   if not self.bias then list[#list + 1] = "bias=false" end
   if self.batch_first then list[#list + 1] = "batch_first=true" end
   if self.dropout ~= 0 then list[#list + 1] = ("dropout=%g"):format(self.dropout) end
   if self.bidirectional then list[#list + 1] = "bidirectional=true" end
   return table.concat(list, ", ")
end

-- Defines nn.RNN, nn.LSTM or nn.GRU. `own` is the signature of an option that only this class has,
-- or nil. mode_of(options) returns the mode for nn.RNNBase, such as "RNN_TANH".
local function define(name, own, mode_of)
   local text = options:format(own or "")
   if name ~= "LSTM" then text = text:gsub("proj_size: count = 0,%s*", "") end
   local signature = args.signature(("nn.%s(input_size: count, hidden_size: count, %s)"):format(
      name, text))
   local Class = class.class("nn." .. name, RNNBase)
   function Class:__init(...)
      local a = signature(...)
      a.mode, a.proj_size = mode_of(a), a.proj_size or 0
      init(self, a)
      self.nonlinearity = a.nonlinearity
   end
   return Class
end

local M = {RNNBase = RNNBase}

--- A recurrent network with h' = tanh(W x + U h + b), or relu in place of tanh: `rnn(input, h0?)`
--- returns the outputs and the last h.
---
---     local rnn = torch.nn.RNN(4, 8, {batch_first = true})
---     local output, h = rnn(torch.zeros(2, 5, 4)) -- (batch, steps, features)
---     print(table.unpack(output.shape))
---     --> 2	5	8
---     print(table.unpack(h.shape)) -- (layers, batch, hidden)
---     --> 1	2	8
---@class nn.RNN: nn.RNNBase
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.RNN
M.RNN = define("RNN", "nonlinearity: string = 'tanh', ", function(a)
   return recurrent.mode_of("nn.RNN", a.nonlinearity)
end)

--- Long short-term memory: `local output, state = lstm(input, state?)`. Both the initial and the
--- last state are the table {h, c}: `local h, c = table.unpack(state)`.
---
---     local lstm = torch.nn.LSTM(4, 8)
---     local output, state = lstm(torch.zeros(5, 2, 4)) -- (steps, batch, features)
---     output, state = lstm(torch.zeros(5, 2, 4), state) -- goes on from there
---     print(table.unpack(output.shape))
---     --> 5	2	8
---     print(#state, table.unpack(state[2].shape)) -- state is {h, c}
---     --> 2	1	2	8
---@class nn.LSTM: nn.RNNBase
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.LSTM
M.LSTM = define("LSTM", nil, function() return "LSTM" end)

--- Gated recurrent units: `gru(input, h0?)` returns the outputs and the last h.
---
---     local gru = torch.nn.GRU(4, 8, {num_layers = 2, bidirectional = true})
---     local output, h = gru(torch.zeros(5, 2, 4))
---     print(table.unpack(output.shape))
---     --> 5	2	16
---     print(table.unpack(h.shape))
---     --> 4	2	8
---@class nn.GRU: nn.RNNBase
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.GRU
M.GRU = define("GRU", nil, function() return "GRU" end)

return M
