-- RNN.lua - RNN, LSTM and GRU over whole sequences, of several layers, in one or both directions.
--
-- Gates lie in the rows of the weights in PyTorch's order: input, forget, cell, output for LSTM,
-- reset, update, new for GRU. The inputs of all steps are multiplied at once; only what depends on
-- the step before runs step by step.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Module = require "tlua.nn.Module"
local Parameter = require "tlua.nn.Parameter"

-- One step of each kind. `x` is the input's share of the gates (N, gates * H), bias included;
-- `state` a list of (N, H); returns the new state, whose first is the output.
local steps = {}

local function recurrent(nonlinearity)
   return function(x, state, weight, bias)
      return {nonlinearity(x + F.linear(state[1], weight, bias))}
   end
end
steps.tanh = recurrent(function(x) return x:tanh() end)
steps.relu = recurrent(function(x) return x:relu() end)

function steps.LSTM(x, state, weight, bias, projection)
   local gates = (x + F.linear(state[1], weight, bias)):chunk(4, 2)
   local forgotten = gates[2]:sigmoid() * state[2]
   local cell = forgotten + gates[1]:sigmoid() * gates[3]:tanh()
   local hidden = gates[4]:sigmoid() * cell:tanh()
   if projection then hidden = F.linear(hidden, projection) end
   return {hidden, cell}
end

function steps.GRU(x, state, weight, bias)
   local from_input = x:chunk(3, 2)
   local from_state = F.linear(state[1], weight, bias):chunk(3, 2)
   local reset = (from_input[1] + from_state[1]):sigmoid()
   local update = (from_input[2] + from_state[2]):sigmoid()
   local new = (from_input[3] + reset * from_state[3]):tanh()
   return {new + update * (state[1] - new)}
end

local gates_of = {RNN = 1, LSTM = 4, GRU = 3}

local Recurrent, parent = class.class("nn.Recurrent", Module)

-- "_l0", "_l0_reverse": PyTorch's names, so that its weights fit.
local function suffix(layer, direction)
   return ("_l%d%s"):format(layer - 1, direction == 2 and "_reverse" or "")
end

function Recurrent:__init(kind, a)
   parent.__init(self)
   self.kind = kind
   for _, name in ipairs {"input_size", "hidden_size", "num_layers", "bias", "batch_first",
      "dropout", "bidirectional", "nonlinearity"} do
      self[name] = a[name]
   end
   self.proj_size = a.proj_size or 0
   if a.num_layers < 1 then
      args.refuse("nn." .. kind, "num_layers", "at least 1", a.num_layers)
   end
   if not (a.dropout >= 0 and a.dropout <= 1) then
      args.refuse("nn." .. kind, "dropout", "a probability from 0 to 1", a.dropout)
   end
   local output = self.proj_size > 0 and self.proj_size or a.hidden_size
   local place = {device = a.device, dtype = a.dtype}
   local rows = gates_of[kind] * a.hidden_size
   local directions = a.bidirectional and 2 or 1
   for layer = 1, a.num_layers do
      local columns = layer == 1 and a.input_size or output * directions
      for direction = 1, directions do
         local tail = suffix(layer, direction)
         self["weight_ih" .. tail] = Parameter(torch.empty(rows, columns, place))
         self["weight_hh" .. tail] = Parameter(torch.empty(rows, output, place))
         if a.bias then
            self["bias_ih" .. tail] = Parameter(torch.empty(rows, place))
            self["bias_hh" .. tail] = Parameter(torch.empty(rows, place))
         end
         if self.proj_size > 0 then
            self["weight_hr" .. tail] = Parameter(torch.empty(output, a.hidden_size, place))
         end
      end
   end
   self:reset_parameters()
end

--- Sets uniform random weights within 1/sqrt(hidden_size).
function Recurrent:reset_parameters()
   local bound = self.hidden_size > 0 and self.hidden_size ^ -0.5 or 0
   for _, parameter in ipairs(self:parameters()) do init.uniform_(parameter, -bound, bound) end
end

-- One direction of one layer. input: (T, N, columns); state: a list of (N, H); returns the outputs
-- (T, N, H) and the last state.
local function run(self, layer, direction, input, state)
   local tail = suffix(layer, direction)
   local weight, bias = self["weight_hh" .. tail], self["bias_hh" .. tail]
   local projection = self["weight_hr" .. tail]
   local step = steps[self.kind == "RNN" and self.nonlinearity or self.kind]
   local inputs = F.linear(input, self["weight_ih" .. tail], self["bias_ih" .. tail]):unbind(1)
   local n = #inputs
   local outputs = {}
   for i = 1, n do
      local t = direction == 1 and i or n + 1 - i
      state = step(inputs[t], state, weight, bias, projection)
      outputs[t] = state[1]
   end
   return torch.stack(outputs, 1), state
end

-- The initial state as a list of tensors (layers * directions, N, size).
local function initial_state(self, input, hx)
   local count = self.num_layers * (self.bidirectional and 2 or 1)
   local output = self.proj_size > 0 and self.proj_size or self.hidden_size
   local sizes = self.kind == "LSTM" and {output, self.hidden_size} or {output}
   local state = {}
   for i, size in ipairs(sizes) do
      local given = hx and hx[i]
      if given and (given:dim() ~= 3 or given:size(1) ~= count or given:size(2) ~= input:size(2)
         or given:size(3) ~= size) then
         args.refuse("nn." .. self.kind, i == 1 and "h0" or "c0",
            ("shape (%d, %d, %d)"):format(count, input:size(2), size), given)
      end
      state[i] = given or torch.zeros(count, input:size(2), size,
         {dtype = input.dtype, device = input.device})
   end
   return state
end

-- input: (T, N, input_size). Returns the outputs and the last state, one tensor for each part.
local function forward_batch(self, input, hx)
   local directions = self.bidirectional and 2 or 1
   local first = initial_state(self, input, hx)
   local last = {}
   for part = 1, #first do last[part] = {} end
   for layer = 1, self.num_layers do
      local outputs = {}
      for direction = 1, directions do
         local k = (layer - 1) * directions + direction
         local state = {}
         for part, tensor in ipairs(first) do state[part] = tensor:select(1, k) end
         outputs[direction], state = run(self, layer, direction, input, state)
         for part = 1, #first do last[part][k] = state[part] end
      end
      input = directions == 2 and torch.cat(outputs, 3) or outputs[1]
      if self.dropout > 0 and layer < self.num_layers then
         input = F.dropout(input, self.dropout, self.is_training)
      end
   end
   for part = 1, #first do last[part] = torch.stack(last[part], 1) end
   return input, last
end

-- Brings the input to (T, N, input_size) and the results back.
local function forward(self, input, ...)
   local name = "nn." .. self.kind
   if not torch.is_tensor(input) or input:dim() ~= 2 and input:dim() ~= 3
      or input:size(-1) ~= self.input_size then
      args.refuse(name, "input", ("a tensor of 2 or 3 dimensions, the last of size %d"):format(
         self.input_size), input)
   end
   local hx = select("#", ...) > 0 and (...) ~= nil and {...} or nil
   local single = input:dim() == 2
   local batch_dim = (single or not self.batch_first) and 2 or 1
   if single then
      input = input:unsqueeze(2)
      for i, tensor in ipairs(hx or {}) do hx[i] = tensor:unsqueeze(2) end
   elseif self.batch_first then
      input = input:transpose(1, 2)
   end
   if input:size(1) == 0 then args.refuse(name, "input", "at least one step", input) end
   local output, last = forward_batch(self, input, hx)
   if single then
      output = output:squeeze(2)
      for i, tensor in ipairs(last) do last[i] = tensor:squeeze(2) end
   elseif batch_dim == 1 then
      output = output:transpose(1, 2)
   end
   return output, table.unpack(last)
end

function Recurrent:extra_repr()
   local list = {("%d, %d"):format(self.input_size, self.hidden_size)}
   if self.proj_size > 0 then list[#list + 1] = "proj_size=" .. self.proj_size end
   if self.num_layers ~= 1 then list[#list + 1] = "num_layers=" .. self.num_layers end
   if not self.bias then list[#list + 1] = "bias=false" end
   if self.batch_first then list[#list + 1] = "batch_first=true" end
   if self.dropout ~= 0 then list[#list + 1] = ("dropout=%g"):format(self.dropout) end
   if self.bidirectional then list[#list + 1] = "bidirectional=true" end
   return table.concat(list, ", ")
end

local options <const> = [[num_layers: count = 1, %sbias: boolean = true,
   batch_first: boolean = false, dropout: number = 0, bidirectional: boolean = false]]

local function define(kind, own, more)
   local name = "nn." .. kind
   local signature = args.signature(("%s(input_size: count, hidden_size: count, %s%s, %s)"):format(
      name, options:format(own), more, "device: string?, dtype: string?"))
   local Class = class.class(name, Recurrent)
   function Class:__init(...)
      local a = signature(...)
      if kind == "RNN" and a.nonlinearity ~= "tanh" and a.nonlinearity ~= "relu" then
         args.refuse(name, "nonlinearity", "tanh or relu", a.nonlinearity)
      end
      Recurrent.__init(self, kind, a)
   end
   Class.forward = forward
   return Class
end

local M = {}

--- h' = tanh(W x + U h + b). `rnn(input, h0?)` takes (T, N, input_size), (N, T, input_size) with
--- `batch_first`, or one sequence (T, input_size); returns the outputs of the last layer at all
--- steps and the last state (layers * directions, N, hidden_size).
---@class nn.RNN: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.RNN
M.RNN = define("RNN", "nonlinearity: string = 'tanh', ", "")

--- Long short-term memory: `lstm(input, h0?, c0?)` returns outputs, h and c; else as RNN.
---@class nn.LSTM: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.LSTM
M.LSTM = define("LSTM", "", ", proj_size: count = 0")

--- Gated recurrent unit: as RNN.
---@class nn.GRU: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.GRU
M.GRU = define("GRU", "", "")

M.steps = steps

return M
