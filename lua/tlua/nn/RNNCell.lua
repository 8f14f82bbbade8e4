-- RNNCell.lua - one step of RNN, LSTM or GRU.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Module = require "tlua.nn.Module"
local Parameter = require "tlua.nn.Parameter"
local steps = require "tlua.nn.RNN".steps

local Cell, parent = class.class("nn.Cell", Module)

function Cell:__init(gates, a)
   parent.__init(self)
   self.input_size, self.hidden_size, self.bias = a.input_size, a.hidden_size, a.bias
   self.nonlinearity = a.nonlinearity
   local place = {device = a.device, dtype = a.dtype}
   local rows = gates * a.hidden_size
   self.weight_ih = Parameter(torch.empty(rows, a.input_size, place))
   self.weight_hh = Parameter(torch.empty(rows, a.hidden_size, place))
   if a.bias then
      self.bias_ih = Parameter(torch.empty(rows, place))
      self.bias_hh = Parameter(torch.empty(rows, place))
   end
   self:reset_parameters()
end

--- Sets uniform random weights within 1/sqrt(hidden_size).
function Cell:reset_parameters()
   local bound = self.hidden_size > 0 and self.hidden_size ^ -0.5 or 0
   for _, parameter in ipairs(self:parameters()) do init.uniform_(parameter, -bound, bound) end
end

function Cell:extra_repr()
   return ("%d, %d, bias=%s"):format(self.input_size, self.hidden_size, self.bias)
end

-- The state after a step, as a list; `parts` is how many tensors a state has.
local function advance(self, step, parts, input, ...)
   local name = torch.type(self)
   if not torch.is_tensor(input) or input:dim() < 1 or input:dim() > 2
      or input:size(-1) ~= self.input_size then
      args.refuse(name, "input", ("shape (N, %d) or (%d)"):format(
         self.input_size, self.input_size), input)
   end
   local single = input:dim() == 1
   if single then input = input:unsqueeze(1) end
   local state = {...}
   for part = 1, parts do
      local given = state[part]
      if given == nil then
         state[part] = torch.zeros(input:size(1), self.hidden_size,
            {dtype = input.dtype, device = input.device})
      elseif single then
         state[part] = given:unsqueeze(1)
      end
   end
   local x = F.linear(input, self.weight_ih, self.bias_ih)
   state = step(x, state, self.weight_hh, self.bias_hh)
   if single then
      for part = 1, parts do state[part] = state[part]:squeeze(1) end
   end
   return table.unpack(state, 1, parts)
end

local function define(short_name, gates, parts, own)
   local name, kind = "nn." .. short_name, short_name:match "^(.*)Cell$"
   local signature = args.signature(name .. "(input_size: count, hidden_size: count, "
      .. "bias: boolean = true, " .. own .. "device: string?, dtype: string?)")
   local Class = class.class(name, Cell)
   function Class:__init(...)
      local a = signature(...)
      if kind == "RNN" and a.nonlinearity ~= "tanh" and a.nonlinearity ~= "relu" then
         args.refuse(name, "nonlinearity", "tanh or relu", a.nonlinearity)
      end
      Cell.__init(self, gates, a)
   end
   function Class:forward(input, ...)
      return advance(self, steps[self.nonlinearity or kind], parts, input, ...)
   end
   return Class
end

local M = {}

--- `cell(input, h?)`: (N, input_size) and (N, hidden_size) to the new h.
---@class nn.RNNCell: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.RNNCell
M.RNNCell = define("RNNCell", 1, 1, "nonlinearity: string = 'tanh', ")

--- `cell(input, h?, c?)`: (N, input_size) and twice (N, hidden_size) to the new h and c.
---@class nn.LSTMCell: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.LSTMCell
M.LSTMCell = define("LSTMCell", 4, 2, "")

--- `cell(input, h?)`, as RNNCell.
---@class nn.GRUCell: nn.Module
---@overload fun(input_size: integer, hidden_size: integer, options?: table): nn.GRUCell
M.GRUCell = define("GRUCell", 3, 1, "")

return M
