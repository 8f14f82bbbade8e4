-- state_hooks.lua - hooks of state_dict and load_state_dict, and a module's extra state, which is
-- not a tensor (get_extra_state). A module without hooks pays nothing for them: it has no
-- `_state_hooks`.

local torch = require "tlua"
local args = require "tlua.args"
local members = require "tlua.nn.members"

local M = {}

local Module <const> = members.Module -- this file adds methods to Module

local extra_name <const> = "_extra_state"

local function prefix_of(path)
   return path == "" and "" or path .. "."
end

-- Calls before(module, prefix) and after(module, prefix) for a module and its descendants, once for
-- each of their paths. A prefix ends in a dot, unless it is empty.
local function walk(module, path, shift, before, after)
   members.visit(module, path, {
      enter = before and function(at_module, at) before(at_module, prefix_of(at)) end,
      leave = after and function(at_module, at) after(at_module, prefix_of(at)) end,
   }, shift)
end

local function run(module, kind, ...)
   for _, entry in ipairs(rawget(module, "_state_hooks") or {}) do
      if entry.kind == kind then entry.hook(module, ...) end
   end
end

local function has_extra(module)
   return module.get_extra_state ~= Module.get_extra_state
end

-- Returns whether no module of a tree has hooks or extra state.
local function is_idle(root)
   for _, module in ipairs(root:modules()) do
      if rawget(module, "_state_hooks") or has_extra(module) then return false end
   end
   return true
end

--- Calls the hooks that run before state_dict takes a state.
---@param root nn.Module
---@param prefix string  a path
---@param shift integer  subtracted from positions in paths
function M.before_save(root, prefix, shift)
   if is_idle(root) then return end
   walk(root, prefix, shift, function(module, at) run(module, "save_pre", at) end)
end

--- Adds the extra states of a module and of its descendants to a state, and calls their hooks. The
--- hooks of a module are called after those of its descendants.
---@param root nn.Module
---@param state table<string, any>
---@param prefix string
---@param shift integer
function M.after_save(root, state, prefix, shift)
   if is_idle(root) then return end
   walk(root, prefix, shift, function(module, at)
      if has_extra(module) then state[at .. extra_name] = module:get_extra_state() end
   end, function(module, at) run(module, "save_post", state, at) end)
end

--- Calls the hooks that run before a state is loaded. The hooks get a copy of the state's table,
--- and may change the copy. Then removes the extra states from the copy.
---@param root nn.Module
---@param state table<string, any>
---@param shift integer
---@return table<string, any> state  the state of parameters and buffers
---@return {module: nn.Module, value: any}[] extras  the extra states, for after_load
---@return string[] missing  paths of extra states
function M.before_load(root, state, shift)
   if is_idle(root) then return state, {}, {} end
   local copy, extras, missing = {}, {}, {}
   for path, value in pairs(state) do copy[path] = value end
   walk(root, "", shift, function(module, at) run(module, "load_pre", copy, at) end)
   walk(root, "", shift, function(module, at)
      if not has_extra(module) then return end
      if module.set_extra_state == Module.set_extra_state then module:set_extra_state() end
      local path = at .. extra_name
      if copy[path] == nil then
         missing[#missing + 1] = path
      else
         extras[#extras + 1] = {module = module, value = copy[path]}
         copy[path] = nil
      end
   end)
   return copy, extras, missing
end

--- Hands extra states to their modules, and calls the hooks that run after a state was loaded.
---@param root nn.Module
---@param extras {module: nn.Module, value: any}[]
---@param missing string[]
---@param unexpected string[]
---@param shift integer
function M.after_load(root, extras, missing, unexpected, shift)
   if is_idle(root) then return end
   for _, extra in ipairs(extras) do extra.module:set_extra_state(extra.value) end
   local incompatible = {missing_keys = missing, unexpected_keys = unexpected}
   walk(root, "", shift, nil, function(module) run(module, "load_post", incompatible) end)
end

local function add(module, kind, who, hook)
   if not args.is_callable(hook) then args.refuse(who, "hook", "a function", hook) end
   local hooks = rawget(module, "_state_hooks")
   if not hooks then
      hooks = {}
      rawset(module, "_state_hooks", hooks)
   end
   local entry = {kind = kind, hook = hook}
   hooks[#hooks + 1] = entry
   return {
      remove = function()
         for i, other in ipairs(hooks) do
            if other == entry then table.remove(hooks, i) end
         end
         if #hooks == 0 and rawget(module, "_state_hooks") == hooks then
            rawset(module, "_state_hooks", nil)
         end
      end,
   }
end

--- Returns state that is not a tensor. state_dict saves it under the module's path and
--- "_extra_state". A class with such a state defines this method and set_extra_state.
---@return any
function Module:get_extra_state()
   torch.raise(("%s has no get_extra_state; a class with a state of its own defines it"):format(
      torch.type(self)))
end

--- Restores the value that get_extra_state has returned; load_state_dict calls this.
---@param state any
function Module:set_extra_state(state) -- luacheck: ignore 212
   torch.raise(("%s has no set_extra_state; a class with get_extra_state defines it, too")
      :format(torch.type(self)))
end

--- Registers `hook(module, prefix)`, which is called before state_dict takes this module's state;
--- the prefix is the module's path with a dot behind it, or "".
---@param hook fun(module: nn.Module, prefix: string)
---@return {remove: fun(self: table)} handle
function Module:register_state_dict_pre_hook(hook)
   return add(self, "save_pre", "register_state_dict_pre_hook", hook)
end

--- Registers `hook(module, state, prefix)`, which is called when state_dict has taken the state of
--- this module and of its descendants; the hook may change the table.
---@param hook fun(module: nn.Module, state: table<string, any>, prefix: string)
---@return {remove: fun(self: table)} handle
function Module:register_state_dict_post_hook(hook)
   return add(self, "save_post", "register_state_dict_post_hook", hook)
end

--- Registers `hook(module, state, prefix)`, which is called before load_state_dict reads a state.
--- The table is a copy of the caller's table, so the hook may change it, for instance to rename
--- entries of older versions.
---@param hook fun(module: nn.Module, state: table<string, any>, prefix: string)
---@return {remove: fun(self: table)} handle
function Module:register_load_state_dict_pre_hook(hook)
   return add(self, "load_pre", "register_load_state_dict_pre_hook", hook)
end

--- Registers `hook(module, incompatible)`, which is called after a state was loaded; `incompatible`
--- has the lists missing_keys and unexpected_keys.
---@param hook fun(module: nn.Module, incompatible: table)
---@return {remove: fun(self: table)} handle
function Module:register_load_state_dict_post_hook(hook)
   return add(self, "load_post", "register_load_state_dict_post_hook", hook)
end

return M
