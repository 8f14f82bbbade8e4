-- random.lua - torch.random: the seed and the state of the default generators.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local scopes = require "tlua.scope"

local M = {}

for _, name in ipairs {"manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state"} do
   M[name] = torch[name]
end

--- Returns the states of the default generators, of the CPU and of all kinds of devices in use.
---@return table states  the states, for set_states
function M.get_states()
   local states = {cpu = torch.get_rng_state()}
   for _, kind in ipairs {"cuda", "sim"} do
      if torch[kind].is_initialized() then states[kind] = torch[kind].get_rng_state_all() end
   end
   return states
end

checked.queries(M, "random.", "get_states")

--- Restores the states of the default generators.
---@param states table  from get_states
function M.set_states(states)
   if type(states) ~= "table" or not states.cpu then
      args.refuse("random.set_states", "states", "a table as given by get_states", states)
   end
   torch.set_rng_state(states.cpu)
   for _, kind in ipairs {"cuda", "sim"} do
      if states[kind] then torch[kind].set_rng_state_all(states[kind]) end
   end
end

local take = args.signature [[random.fork_rng(enabled: boolean = true, devices: any?,
   device_type: any?)]]

--- Restores the default generators after fn has run with the remaining arguments or, without fn,
--- when the returned scope ends. Random numbers drawn in between therefore do not change later
--- ones. The function always covers the CPU and all devices in use: the options `devices` and
--- `device_type` are accepted but have no effect.
---@param options? {enabled: boolean}|fun(...): any  can come before fn
---@param fn? fun(...): any
---@param ... any
---@return any ...  fn's results, or a scope to be closed
function M.fork_rng(options, fn, ...)
   if args.is_callable(options) then return M.fork_rng({}, options, fn, ...) end
   local a = take(options or {})
   scopes.check_function("random.fork_rng", fn)
   local states
   return scopes.run(function() states = a.enabled and M.get_states() end, function()
      if states then M.set_states(states) end
   end, fn, ...)
end

return M
