-- casts.lua - saves and restores the state of torch.autocast, and casts the arguments of a Function
-- with `cast_inputs`.

local torch = require "tlua"
local scopes = require "tlua.scope"

local M = {}

local kinds <const> = {"cpu", "cuda", "sim"}

--- Returns the state of autocast: a table that maps each kind of device for which autocast is on to
--- autocast's dtype, or nil if autocast is off for all kinds.
---@return table<string, string>?
function M.current()
   if not torch.is_autocast_enabled() then return nil end
   local state = {}
   for _, kind in ipairs(kinds) do
      state[kind] = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) or nil
   end
   return state
end

--- Restores a saved state until the end of the block: local _ <close> = casts.scope(state).
---@param state? table<string, string>  a state that M.current() has returned
---@return table?  a scope to be closed, or nil if autocast is off in both states
function M.scope(state)
   local now = M.current()
   if not state and not now then return nil end
   local list = {}
   for _, kind in ipairs(kinds) do
      local wanted, is = state and state[kind], now and now[kind]
      if wanted ~= is then
         list[#list + 1] = torch.autocast(kind, {enabled = wanted ~= nil, dtype = wanted})
      end
   end
   return scopes.all(list)
end

local function kind_of(tensor) return tensor.device.type end

local function convert(value, dtype, on)
   if torch.is_tensor(value) then
      local fits = value:is_floating_point() and value.dtype ~= "float64" and on(kind_of(value))
      return fits and value:to(dtype) or value
   elseif type(value) == "table" and not getmetatable(value) then
      local copy = {}
      for key, item in pairs(value) do copy[key] = convert(item, dtype, on) end
      return copy
   end
   return value
end

--- Converts floating-point arguments, including those in tables, to `dtype`; float64 stays float64.
---@param inputs table  the arguments, as table.pack returns them
---@param dtype string
---@param on fun(kind: string): boolean  whether to convert tensors on that kind of device
---@return table
function M.inputs(inputs, dtype, on)
   local made = {n = inputs.n}
   for i = 1, inputs.n do made[i] = convert(inputs[i], dtype, on) end
   return made
end

return M
