-- settings.lua - the options of a server, for torch.serve and for `tlua serve`.

local torch = require "tlua"
local args = require "tlua.args"
local suggest = require "tlua.utils.suggest"
local repository = require "tlua.serve.repository"

local M = {}

local function integer(least, most)
   return {("an integer from %d to %d"):format(least, most), function(v)
      return math.type(v) == "integer" and v >= least and v <= most
   end}
end

local function number(least)
   return {("a number of at least %g"):format(least), function(v)
      return type(v) == "number" and v >= least
   end}
end

local path <const> = {"a path", function(v)
   return type(v) == "string" and v ~= "" and not v:find "%z"
end}
local switch <const> = {"a boolean", function(v) return type(v) == "boolean" end}

-- Maps each option of the server to {default, allowed values}. The default is false if there is
-- none.
local known <const> = {
   port = {8000, integer(0, 65535)},
   address = {"127.0.0.1", {"an address", function(v)
      return type(v) == "string" and v ~= "" and not v:find "%z"
   end}},
   http_threads = {1, integer(1, 64)},
   max_body = {64 << 20, integer(1, 1 << 40)},
   max_connections = {10000, integer(1, 1 << 20)},
   idle_timeout = {60, integer(1, 86400)},
   receive_timeout = {60, integer(1, 86400)},
   access_log = {false, path},
   tokens = {false, {"a list of texts without spaces", function(v)
      if type(v) ~= "table" or #v == 0 then return false end
      for _, token in pairs(v) do
         if type(token) ~= "string" or not token:find "^[\33-\126]+$" then return false end
      end
      return true
   end}},
   key = {false, path},
   certificate = {false, path},
   poll = {1.0, number(0.05)},
   grace = {30.0, number(0)},
   page = {true, switch},
   fixed = {false, switch},
   quiet = {false, switch},
}

--- Returns the names of all options, sorted.
---@return string[]
function M.names()
   local names = {}
   for name in pairs(known) do names[#names + 1] = name end
   for name in pairs(repository.defaults) do names[#names + 1] = name end
   table.sort(names)
   return names
end

--- Returns whether an option is a switch, which takes no value on the command line.
---@param name string
---@return boolean
function M.is_switch(name)
   local entry = known[name]
   return entry ~= nil and entry[2] == switch
end

--- Checks the given options. Returns the settings of a server. The options for models are in the
--- field `options` of the settings.
---@param title string  the beginning of error messages
---@param given table
---@return table
function M.read(title, given)
   local settings, models = {}, {}
   for name, entry in pairs(known) do settings[name] = entry[1] or nil end
   for name, value in pairs(given) do
      local entry = known[name]
      if entry then
         if not entry[2][2](value) then args.refuse(title, name, entry[2][1], value) end
         settings[name] = value
      elseif repository.defaults[name] ~= nil then
         models[name] = value
      else
         torch.raise(("%s: unknown option %s%s"):format(title, tostring(name),
            suggest.hint(tostring(name), M.names())))
      end
   end
   if (settings.key == nil) ~= (settings.certificate == nil) then
      torch.raise(("%s: expected both key and certificate, got only %s"):format(title,
         settings.key and "key" or "certificate"))
   end
   local merged, message = repository.merge(repository.defaults, models)
   if not merged then torch.raise(("%s: %s"):format(title, message)) end
   settings.options = merged
   return settings
end

return M
