-- recurrent.lua - what recurrent networks over sequences and their cells share.

local torch = require "tlua"
local args = require "tlua.args"
local init = require "tlua.nn.initializers"

local M = {}

--- Sets uniform random weights within 1/sqrt(hidden_size).
---@param self nn.Module  with a hidden_size
function M.reset_parameters(self)
   local bound = self.hidden_size ^ -0.5
   for _, parameter in ipairs(self:parameters()) do init.uniform_(parameter, -bound, bound) end
end

--- The size of an output: hidden_size, or what that is projected to.
---@return integer
function M.output_size(self)
   return self.proj_size and self.proj_size > 0 and self.proj_size or self.hidden_size
end

--- "RNN_TANH" or "RNN_RELU".
---@param name string  of the class
---@param nonlinearity string
---@return string
function M.mode_of(name, nonlinearity)
   if nonlinearity ~= "tanh" and nonlinearity ~= "relu" then
      args.refuse(name, "nonlinearity", "tanh or relu", nonlinearity)
   end
   return "RNN_" .. nonlinearity:upper()
end

--- Refuses an argument whose dtype is not that of a parameter.
---@param self nn.Module
---@param what string  of the argument
---@param tensor Tensor
---@param name string  of the parameter
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

-- States as a list that may have holes: given one by one, or as one list.
local function given_states(name, most, first, ...)
   local list, n = {first, ...}, select("#", first, ...)
   if type(first) == "table" then
      if (...) ~= nil then args.refuse(name, "hx", "one list, or tensors", first) end
      list, n = {table.unpack(first)}, #first
   end
   if n > most then
      torch.raise(("%s: hx: expected at most %d tensors, got %d"):format(name, most, n))
   end
   return list, n
end

--- The first states, given as tensors or in a list, after a check; an empty list for none. Where
--- only some are given the others are zeros.
---@param self nn.Module
---@param input Tensor
---@param shapes integer[][]  of h, and of c where there is one
---@param ... Tensor|Tensor[]|nil
---@return Tensor[]
function M.states(self, input, shapes, ...)
   local name = torch.type(self)
   local list, n = given_states(name, #shapes, ...)
   local some = false
   for i = 1, n do
      local state, what = list[i], i == 1 and "h0" or "c0"
      if state ~= nil then
         some = true
         if not torch.is_tensor(state) or not same_shape(state, shapes[i]) then
            args.refuse(name, what, "shape (" .. table.concat(shapes[i], ", ") .. ")", state)
         end
         if state.dtype ~= input.dtype then
            args.refuse(name, what, input.dtype .. ", as the input is", state)
         end
      end
   end
   if not some then return {} end
   for i, shape in ipairs(shapes) do
      list[i] = list[i] or torch.zeros(shape, {dtype = input.dtype, device = input.device})
   end
   return list
end

--- The output and the list of states that follow it.
---@return Tensor output
---@return Tensor[] states
function M.split(output, ...) return output, {...} end

return M
