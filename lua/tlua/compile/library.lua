-- library.lua - distinguishes the library's functions and tables from those of the user's script,
-- and pure C functions from all other C functions, for torch.compile.

local torch = require "tlua"

local M = {}

-- C functions that are not pure: they have side effects, or their results depend on more than their
-- arguments, the values that the tracer watches, and the modes in a call's key.
local impure <const> = {}
for name in ([[Generator manual_seed seed initial_seed get_rng_state set_rng_state random seed_all
   set_anomaly_enabled set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled autocast
   set_default_device default_device set_default_dtype set_deterministic_debug_mode
   set_grad_enabled enable_grad inference_mode set_memory_limit memory_trim set_num_threads
   set_printoptions clear_autocast_cache backward register_hook register_post_accumulate_grad_hook
   retain_grad detach_ data_ptr storage untyped_storage release numpy iter apply_ map_ map2_ set_
   resize_ scope __gc __tostring storage_offset is_pinned is_shared is_set_to get_num_threads
   get_printoptions get_autocast_dtype config __pairs get_deterministic_debug_mode
   is_autocast_cache_enabled __concat]]):gmatch "%S+" do
   impure[name] = true
end

-- Pure functions of Lua's standard libraries.
local standard <const> = {
   _G = [[assert error ipairs next pairs rawequal rawget rawlen rawset select setmetatable
      getmetatable tonumber tostring type]],
   math = [[abs acos asin atan ceil cos deg exp floor fmod log max min modf rad sin sqrt tan
      tointeger type ult pow cosh sinh tanh log10 ldexp frexp]],
   string = [[byte char find format gsub len lower match rep reverse sub upper pack packsize
      unpack]],
   table = "concat insert move pack remove sort unpack", utf8 = "char codepoint len offset",
}

-- The result of the last scan. `pure` is the set of pure C functions, `denied` maps functions that
-- even the library may not call to their names, and `tables` is the set of the library's tables.
-- `places` maps each function of the library to the list of its places, {table, key}. `size` is the
-- number of modules that were loaded at the scan.
local found = {size = 0}

-- One value of each kind of userdata whose functions are pure. The values are made when this file
-- is loaded, because a trace would record their creation if one were running.
local sample <const> = torch.zeros(1)
local samples <const> = {sample, sample.shape, sample.device, torch.no_grad()}
for _, value in ipairs(samples) do
   local meta = debug.getmetatable(value)
   if meta.__close and value ~= sample then meta.__close(value) end
end

--- The functions that read and set the properties of tensors. The metatable itself is not a field
--- of M, since scripts may not call its other functions.
M.index, M.newindex = debug.getmetatable(sample).__index, debug.getmetatable(sample).__newindex

local function source_of(fn) return debug.getinfo(fn, "S").source end

--- Returns whether a function belongs to the part of the library that is written in Lua.
function M.owns(fn) return source_of(fn):sub(1, 6) == "=tlua:" end

local function is_c(fn) return debug.getinfo(fn, "S").what == "C" end

-- Returns whether a table has functions, and none of them is a Lua function from outside the
-- library.
local function is_library(value)
   local any = false
   for _, item in next, value do
      if type(item) == "function" then
         if not is_c(item) and not M.owns(item) then return false end
         any = true
      end
   end
   return any
end

local function add_table(value)
   if found.tables[value] then return end
   found.tables[value] = true
   local meta = debug.getmetatable(value)
   if type(meta) == "table" then found.tables[meta] = true end
   for key, item in next, value do
      if type(item) == "function" then
         local places = found.places[item] or {}
         found.places[item] = places
         places[#places + 1] = {value, key}
         if is_c(item) and not impure[key] and type(key) == "string"
            and (key:sub(1, 1) ~= "_" or key:sub(1, 2) == "__" or torch._operator_parameters(key))
         then
            found.pure[item] = true
         end
      end
   end
end

-- Adds the metatable of a kind of userdata, and the table of its methods, to the library's tables.
local function add_kind(value)
   local meta = debug.getmetatable(value)
   add_table(meta)
   for i = 1, 8 do
      if type(meta.__index) ~= "function" then break end
      local _, upvalue = debug.getupvalue(meta.__index, i)
      if type(upvalue) == "table" then add_table(upvalue) end
   end
end

local function scan()
   local size = 0
   for _ in next, package.loaded do size = size + 1 end
   if size == found.size then return end
   found = {size = size, pure = {}, denied = {}, tables = {}, places = {}}
   for name, names in next, standard do
      for key in names:gmatch "%S+" do
         local fn = rawget(name == "_G" and _G or _G[name], key)
         if fn then
            found.pure[fn] = true
            found.places[fn] = {{name == "_G" and _G or _G[name], key}}
         end
      end
   end
   for _, name in ipairs {"os", "io", "coroutine"} do
      for key, fn in next, _G[name] or {} do found.denied[fn] = name .. "." .. tostring(key) end
   end
   found.denied[math.random], found.denied[math.randomseed] = "math.random", "math.randomseed"
   found.denied[print] = "print"
   found.pure[(ipairs {})] = true
   for _, value in ipairs(samples) do add_kind(value) end
   for _, name in ipairs {"_is_size", "_to_device", "_sparse_parts", "_tracing", "_setting",
      "_batched_call", "_wrapped_parts", "_is_embedded"} do
      local fn = rawget(torch, name)
      if fn then found.pure[fn] = true end
   end
   for name, value in next, package.loaded do
      if type(value) == "table" and (name == "tlua" or name:sub(1, 5) == "tlua.") then
         add_table(value)
         for _, item in next, value do
            if type(item) == "table" and is_library(item) then add_table(item) end
         end
      end
   end
end

--- Scans the loaded modules again if their number has changed, and returns the result.
function M.refresh()
   scan()
   return found
end

return M
