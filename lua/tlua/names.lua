-- names.lua - looks up names of the library's public tables, and composes messages about unknown
-- names. lazy.lua makes the tables strict.

local lazy = require "tlua.lazy"

local M = {}

-- Unknown names -----------------------------------------------------------------------------------

-- The public tables that are searched for a name that a program has looked up in the wrong table.
-- "" stands for torch itself.
local namespaces <const> = {
   "", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "linalg",
   "special", "autograd", "func", "data", "utils", "io", "distributed", "cuda", "distributions",
}

-- Returns the full path of a name that another public table has: torch.nn.Linear for the name
-- Linear.
local function elsewhere(name)
   for _, space in ipairs(namespaces) do
      local path = space == "" and name or space .. "." .. name
      if M.has(path) then return "torch." .. path end
   end
end

--- Returns a public table's name for messages: its path from torch or, if it has none, its module's
--- name.
---@param target table
---@return string
function M.title_of(target)
   local title = getmetatable(target).title
   if title then return title end
   for module, loaded in next, package.loaded do
      if loaded == target then title = module:gsub("^tlua", "torch") end
   end
   return title or "this table"
end

local function nearest(target, key)
   local names = {}
   local private = key:find "^_" ~= nil
   for _, fields in ipairs {target, lazy.fields(target)} do
      for name in next, fields do
         if type(name) == "string" and (name:find "^_" ~= nil) == private then
            names[name] = true
         end
      end
   end
   return require "tlua.utils.suggest".nearest(key, names)
end

-- Returns whether reading a missing key gives nil instead of an error. Integer keys give nil, so
-- that ipairs and # work as for other tables. The names of metamethods give nil as well, because
-- programs read them to identify a value.
local function may_be_nil(key)
   return type(key) == "number" or type(key) == "string" and key:find "^__%a+$" ~= nil
end

--- Handles reading a missing field of a public table. Returns nil for keys that may be absent. For
--- any other key raises an error at the user's line; the error gives the reason if the name is
--- listed as unsupported, and otherwise the closest name.
---@param target table
---@param key any
function M.refuse(target, key)
   if may_be_nil(key) then return nil end
   local raise = require "tlua".raise
   local title = M.title_of(target)
   if type(key) ~= "string" then raise(("%s: no field %s"):format(title, tostring(key))) end
   if require "tlua"._is_embedded "tlua.left_out" and require "tlua.left_out"[key] then
      raise(key .. ": not in this build (PROFILE=infer); add it to OPS")
   end
   local unsupported = getmetatable(target).unsupported
   local reasons = unsupported and lazy.is_there(unsupported) and require(unsupported)
   local why = reasons and reasons[key]
   if why then raise(("%s.%s: %s"):format(title, key, why)) end
   local other = elsewhere(key)
   local near = not other and nearest(target, key)
   local meant = other or near and title .. "." .. near
   raise(("%s: no field '%s'%s"):format(title, key,
      meant and (". Did you mean %s?"):format(meant) or ""))
end

-- Feature tests -----------------------------------------------------------------------------------

-- Returns whether a table has a field itself, inherits it, or can load it.
local function contains(value, name)
   while type(value) == "table" do
      if rawget(value, name) ~= nil then return true end
      local meta = getmetatable(value)
      if type(meta) ~= "table" then return false end
      local module = lazy.fields(value)[name]
      if module then return lazy.is_there(module) end
      if meta.names and meta.names[name] ~= nil then return true end
      value = meta.__index
   end
   return false
end

--- Returns whether the library has a field, function or class of that name: torch.has "nn.Linear",
--- torch.has "cuda.is_available", torch.has "float8_e5m2". For a field of a package, such as
--- "text", the result is true only if the package is installed. Reading an unknown name from torch
--- or its tables is an error, so this function is the way to test for a feature. It loads the
--- tables on the path, such as nn, but not the last part.
---@param name string  from torch on, parts joined by dots
---@return boolean
function M.has(name)
   local torch = require "tlua"
   if type(name) ~= "string" or name == "" then
      require "tlua.args".refuse("has", "name", 'a name such as "nn.Linear"', name)
   end
   local value, last = torch, nil
   for part in (name:gsub("^torch%.", "") .. "."):gmatch "(.-)%." do
      if last then value = value[last] end
      if not contains(value, part) then return false end
      last = part
   end
   return true
end

return M
