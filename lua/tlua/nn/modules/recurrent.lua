-- recurrent.lua - functions shared by recurrent networks over sequences and their cells.

local torch = require "tlua"
local args = require "tlua.args"
local init = require "tlua.nn.initializers"

local M = {}

--- Fills the parameters with uniform random values from [-b, b], where b = 1/sqrt(hidden_size).
---@param self nn.Module  a layer with a hidden_size
function M.reset_parameters(self)
   local bound = self.hidden_size ^ -0.5
   for _, parameter in ipairs(self:parameters()) do init.uniform_(parameter, -bound, bound) end
end

--- Returns the size of an output: proj_size if there is a projection, otherwise hidden_size.
---@return integer
function M.output_size(self)
   return self.proj_size and self.proj_size > 0 and self.proj_size or self.hidden_size
end

--- Returns the mode that the option `nonlinearity` names: "RNN_TANH" or "RNN_RELU". Raises an error
--- for any other name.
---@param name string  the name of the class
---@param nonlinearity string
---@return string
function M.mode_of(name, nonlinearity)
   if nonlinearity ~= "tanh" and nonlinearity ~= "relu" then
      args.refuse(name, "nonlinearity", "tanh or relu", nonlinearity)
   end
   return "RNN_" .. nonlinearity:upper()
end

--- Raises an error if an argument and a parameter have different dtypes.
---@param self nn.Module
---@param what string  the argument's name
---@param tensor Tensor
---@param name string  the parameter's name
function M.check_dtype(self, what, tensor, name)
   if tensor.dtype ~= self[name].dtype then
      args.refuse(torch.type(self), what, ("%s, as %s is"):format(self[name].dtype, name), tensor)
   end
end

local function same_shape(tensor, shape)
   if tensor:dim() ~= #shape then return false end
   for d, size in ipairs(shape) do
      if tensor:size(d) ~= size then return false end
   end
   return true
end

-- Returns the states that the caller has passed as a list, with one tensor for each name. The
-- caller passes a single state as a tensor, and two states always as one table. If they were
-- separate results or arguments, a loop that keeps one variable, such as PyTorch's `output, hidden
-- = lstm(input, hidden)`, would silently drop the second state.
local function given_states(self, names, usage, hx, ...)
   local name, most = torch.type(self), #names
   if most == 1 then
      if select("#", ...) > 0 then
         torch.raise(("%s: expected at most 2 arguments, got %d"):format(name,
            2 + select("#", ...)))
      end
      return {hx}
   end
   if hx == nil and select("#", ...) == 0 then return {} end
   local expected = ("{%s}, a table of two tensors"):format(table.concat(names, ", "))
   local got
   if select("#", ...) > 0 then
      got = ("%d arguments"):format(1 + select("#", ...))
   elseif type(hx) ~= "table" or getmetatable(hx) then
      got = args.describe(hx)
   elseif #hx ~= most or not torch.is_tensor(hx[1]) then
      got = ("a table of %d with %s first"):format(#hx, args.describe(hx[1]))
   else
      return {hx[1], hx[2]}
   end
   torch.raise(("%s: hx: expected %s, got %s; %s"):format(name, expected, got, usage))
end

--- Checks and returns the initial states. If none are given, returns an empty list, which means
--- states of zeros.
---@param self nn.Module
---@param input Tensor
---@param names string[]  the names of the states: h, and c if there is one
---@param shapes integer[][]  the shape of each state
---@param usage string  the right call, for messages
---@param ... Tensor|Tensor[]|nil  h, or {h, c}
---@return Tensor[]
function M.states(self, input, names, shapes, usage, ...)
   local name = torch.type(self)
   local list = given_states(self, names, usage, ...)
   for i, state in pairs(list) do
      if not torch.is_tensor(state) or not same_shape(state, shapes[i]) then
         args.refuse(name, names[i], "shape (" .. table.concat(shapes[i], ", ") .. ")", state)
      end
      if state.dtype ~= input.dtype then
         args.refuse(name, names[i], input.dtype .. ", as the input is", state)
      end
   end
   return list
end

--- Returns the first argument, which is the output of a call, and a list of the arguments after it,
--- which are the states.
---@return Tensor output
---@return Tensor[] states
function M.split(output, ...) return output, {...} end

return M
