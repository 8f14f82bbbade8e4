-- RNNCell.lua - one step of RNN, LSTM or GRU.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"
local recurrent = require "tlua.nn.modules.recurrent"

local options <const> = "device: device?, dtype: string?"

--- The base of RNNCell, LSTMCell and GRUCell. The weights have num_chunks * hidden_size rows, where
--- num_chunks is the number of gates.
---@class nn.RNNCellBase: nn.Module
---@field weight_ih Tensor  (gates * hidden_size, input_size)
---@field weight_hh Tensor  (gates * hidden_size, hidden_size)
---@field bias_ih Tensor?  (gates * hidden_size)
---@field bias_hh Tensor?  (gates * hidden_size)
---@overload fun(input_size: integer, hidden_size: integer, bias: boolean, num_chunks: integer)
---
---    local cell = torch.nn.GRUCell(4, 8)
---    print(torch.isinstance(cell, torch.nn.RNNCellBase), cell.weight_ih.shape[1])
---    --> true	24
local RNNCellBase, parent = class.class("nn.RNNCellBase", Module)

local take_base = args.signature(("nn.RNNCellBase(input_size: count, hidden_size: count, "
   .. "bias: boolean, num_chunks: count, %s)"):format(options))

local function init(self, a)
   parent.__init(self)
   if a.hidden_size < 1 then
      args.refuse(torch.type(self), "hidden_size", "at least 1", a.hidden_size)
   end
   self.input_size, self.hidden_size, self.bias = a.input_size, a.hidden_size, a.bias
   local place = {device = a.device, dtype = a.dtype}
   local rows = a.num_chunks * a.hidden_size
   self.weight_ih = Parameter(torch.empty(rows, a.input_size, place))
   self.weight_hh = Parameter(torch.empty(rows, a.hidden_size, place))
   if a.bias then
      self.bias_ih = Parameter(torch.empty(rows, place))
      self.bias_hh = Parameter(torch.empty(rows, place))
   end
   self:reset_parameters()
end

function RNNCellBase:__init(...) init(self, take_base(...)) end

--- Fills the parameters with uniform random values from [-b, b], where b = 1/sqrt(hidden_size).
RNNCellBase.reset_parameters = recurrent.reset_parameters

function RNNCellBase:extra_repr()
   local text = ("%d, %d"):format(self.input_size, self.hidden_size)
   if not self.bias then text = text .. ", bias=false" end
   if self.nonlinearity and self.nonlinearity ~= "tanh" then
      text = text .. ", nonlinearity=" .. self.nonlinearity
   end
   return text
end

-- Arguments of recurrent.states: the names of the states that a cell takes.
local state_names <const>, lstm_names <const> = {"h"}, {"h", "c"}
local usage <const> = "h, c = cell(input, {h, c}) returns two tensors and takes a table of them"

-- Makes one step by the operator, and returns the tensors of the next state. `parts` is the number
-- of these tensors.
local function advance(self, operator, parts, input, ...)
   if not torch.is_tensor(input) or input:dim() < 1 or input:dim() > 2
      or input:size(-1) ~= self.input_size then
      args.refuse(torch.type(self), "input", ("shape (N, %d) or (%d)"):format(
         self.input_size, self.input_size), input)
   end
   recurrent.check_dtype(self, "input", input, "weight_ih")
   local single, shapes = input:dim() == 1, {}
   for i = 1, parts do
      shapes[i] = single and {self.hidden_size} or {input:size(1), self.hidden_size}
   end
   local states = recurrent.states(self, input, parts == 1 and state_names or lstm_names, shapes,
      usage, ...)
   if single then
      input = input:unsqueeze(1)
      for i, state in ipairs(states) do states[i] = state:unsqueeze(1) end
   end
   local hx = states
   if parts == 1 then hx = states[1] end
   local h, c = operator(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
   if single then h, c = h:squeeze(1), c and c:squeeze(1) end
   if parts == 1 then return h end
   return h, c
end

local function define(name, chunks, parts, own, operator_of)
   local signature = args.signature(("nn.%s(input_size: count, hidden_size: count, "):format(name)
      .. "bias: boolean = true, " .. own .. options .. ")")
   local Class = class.class("nn." .. name, RNNCellBase)
   function Class:__init(...)
      local a = signature(...)
      a.num_chunks = chunks
      if a.nonlinearity then recurrent.mode_of("nn." .. name, a.nonlinearity) end
      init(self, a)
      self.nonlinearity = a.nonlinearity
   end
   function Class:forward(input, ...)
      return advance(self, torch[operator_of(self)], parts, input, ...)
   end
   return Class
end

local M = {RNNCellBase = RNNCellBase}

--- Makes one step of an RNN: `cell(input, h?)` takes an input of shape (N, input_size) and a state
--- of shape (N, hidden_size), or both without N, and returns the next state. h is zeros by default.
---
---     local cell = torch.nn.RNNCell(4, 8)
---     local h = cell(torch.zeros(2, 4))
---     print(table.unpack(cell(torch.zeros(2, 4), h).shape))
---     --> 2	8
---@class nn.RNNCell: nn.RNNCellBase
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.RNNCell
M.RNNCell = define("RNNCell", 1, 1, "nonlinearity: string = 'tanh', ", function(self)
   return "rnn_" .. self.nonlinearity .. "_cell"
end)

--- Makes one step of an LSTM: `h, c = cell(input, {h, c})`. The cell returns two results, like an
--- unpacked tuple in PyTorch. The previous states are one table, zeros by default.
---
---     local cell = torch.nn.LSTMCell(4, 8)
---     local h, c = cell(torch.zeros(2, 4))
---     h, c = cell(torch.zeros(2, 4), {h, c})
---     print(table.unpack(h.shape))
---     --> 2	8
---@class nn.LSTMCell: nn.RNNCellBase
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.LSTMCell
M.LSTMCell = define("LSTMCell", 4, 2, "", function() return "lstm_cell" end)

--- Makes one step of a GRU: `cell(input, h?)`. Shapes are those of RNNCell.
---
---     local cell = torch.nn.GRUCell(4, 8)
---     print(table.unpack(cell(torch.zeros(2, 4)).shape))
---     --> 2	8
---@class nn.GRUCell: nn.RNNCellBase
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.GRUCell
M.GRUCell = define("GRUCell", 3, 1, "", function() return "gru_cell" end)

return M
