-- casts.lua - the state of torch.autocast as a value, to come back to it later, and what a Function
-- with `cast_inputs` does to its arguments.

local torch = require "tlua"
local scopes = require "tlua.scope"

local M = {}

local kinds <const> = {"cpu", "cuda", "sim"}

--- What autocast does now: the dtype for each kind of device where it is on; nil if nowhere.
---@return table<string, string>?
function M.current()
   if not torch.is_autocast_enabled() then return nil end
   local state = {}
   for _, kind in ipairs(kinds) do
      state[kind] = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) or nil
   end
   return state
end

--- Brings a state back, to the end of the block: local _ <close> = casts.scope(state).
---@param state? table<string, string>  of M.current()
---@return table?  nil where that is how things are
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

--- Arguments, in tables too, with floating tensors but those of float64 converted to `dtype`.
---@param inputs table  as of table.pack
---@param dtype string
---@param on fun(kind: string): boolean  whether tensors on that kind of device are
---@return table
function M.inputs(inputs, dtype, on)
   local made = {n = inputs.n}
   for i = 1, inputs.n do made[i] = convert(inputs[i], dtype, on) end
   return made
end

return M
