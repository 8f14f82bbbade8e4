-- config.lua - reads the configuration of `tlua fit`, sets values from texts, and formats it as
-- Lua.

local torch = require "tlua"
local args = require "tlua.args"
local suggest = require "tlua.utils.suggest"

local M = {}

local known <const> = {build = true, model = true, data = true, trainer = true, seed = true,
   ckpt_path = true, sweep = true}

--- Raises an error about the command's arguments or configuration. The command prints the error's
--- message, followed by the command's usage.
---@param text string
function M.fail(text) error({usage = text}, 0) end

local fail <const> = M.fail

--- Converts a text of the command line to a value. If the text is a Lua constant (a number, a
--- boolean, nil, a table or a string in double quotes), the value is this constant. Otherwise it is
--- the text itself.
---@param text string
---@return any
function M.value_of(text)
   if text == "nil" then return nil end
   local chunk = (tonumber(text) or text == "true" or text == "false" or text:find "^{.*}$"
      or text:find '^".*"$') and load("return " .. text, "=value", "t", {})
   if not chunk then return text end
   local ok, value = pcall(chunk)
   if not ok then return text end
   return value
end

local value_of <const> = M.value_of

local function trainer_options()
   require "tlua.trainer.Trainer"
   return args.declaration "trainer.Trainer"
end

--- Sets the field with the given path, such as model.width, from a text of the command line. Raises
--- an error if there is no such option, or if the type of a model's or a data option would change.
---@param config table
---@param path string
---@param text string
function M.set(config, path, text)
   local group, name = path:match "^(%w+)%.([%w_.]+)$"
   if not group then
      if path == "model" or path == "data" or path == "trainer" then
         fail(("--%s: expected the name of one option, such as --%s.%s=%s; got --%s"):format(path,
            path, path == "trainer" and "max_epochs" or "width", path == "trainer" and "3" or "64",
            path))
      elseif path == "print-config" then
         fail(("--print-config: expected no value, got %s"):format(text))
      end
      if path ~= "seed" and path ~= "ckpt_path" then
         fail(("unknown option --%s%s"):format(path, suggest.hint(path, {"seed", "ckpt_path",
            "trainer", "model", "data", "print-config"})))
      end
      config[path] = value_of(text)
      return
   end
   if group ~= "trainer" and group ~= "model" and group ~= "data" then
      fail(("unknown option --%s: expected --trainer., --model. or --data."):format(path))
   end
   config[group] = config[group] or {}
   if group == "trainer" then
      local options = trainer_options()
      if not options.by_name[name] then
         fail(("unknown option --%s%s"):format(path, suggest.hint(name, options.by_name)))
      end
      config.trainer[name] = value_of(text)
      return
   end
   local at = config[group]
   local parts = {}
   for part in name:gmatch "[^.]+" do parts[#parts + 1] = part end
   for i = 1, #parts - 1 do
      at = at[parts[i]]
      if type(at) ~= "table" then
         fail(("unknown option --%s: %s is no table in the configuration"):format(path, parts[i]))
      end
   end
   local last = parts[#parts]
   local old, new = at[last], value_of(text)
   if old == nil then
      fail(("unknown option --%s: the configuration's table %s has no such field%s"):format(path,
         group, suggest.hint(last, at)))
   end
   if type(old) == "string" and new ~= nil then new = text end
   if new ~= nil and type(new) ~= type(old) then
      fail(("--%s: expected a %s, got %s"):format(path, type(old), text))
   end
   if math.type(old) == "integer" and math.type(new) == "float" then
      fail(("--%s: expected an integer, got %s"):format(path, text))
   end
   at[last] = new
end

--- Reads a configuration and checks its fields.
---@param path string
---@return table
function M.read(path)
   local file, message = io.open(path, "rb")
   if not file then fail(message) end
   local text = file:read "a"
   file:close()
   if not text then fail(path .. ": cannot be read") end
   local chunk, problem = load(text, "@" .. path, "t", package.loaded._G)
   if not chunk then fail(problem) end
   local config = chunk()
   if type(config) ~= "table" then fail(path .. ": expected a table as its result, got "
      .. args.describe(config)) end
   for key in pairs(config) do
      if not known[key] then
         fail(("%s: unknown field %s%s"):format(path, tostring(key), suggest.hint(tostring(key),
            known)))
      end
   end
   if not args.is_callable(config.build) then
      fail(("%s: build: expected a function, got %s"):format(path, args.describe(config.build)))
   end
   for _, group in ipairs {"model", "data", "trainer", "sweep"} do
      if config[group] ~= nil and type(config[group]) ~= "table" then
         fail(("%s: %s: expected a table, got %s"):format(path, group,
            args.describe(config[group])))
      end
   end
   return config
end

local function show_number(value)
   if value ~= value then return "0/0" end
   if value == math.huge then return "math.huge" end
   if value == -math.huge then return "-math.huge" end
   return tostring(value)
end

-- Returns whether a key can be written without brackets. Reserved words of Lua cannot.
local function is_field_name(name)
   return type(name) == "string" and name:find "^[%a_][%w_]*$" ~= nil
      and load(("return {%s = 1}"):format(name), "=name", "t", {}) ~= nil
end

-- Formats a value as Lua source: on several lines or, if `indent` is nil, on one line. A value that
-- has no such form, such as a function or an object, becomes nil with a comment.
local function show(value, indent)
   if type(value) == "string" then return (("%q"):format(value):gsub("\\\n", "\\n")) end
   if type(value) == "number" then return show_number(value) end
   if type(value) == "boolean" then return tostring(value) end
   if type(value) ~= "table" or getmetatable(value) then
      return ("nil --[[ %s ]]"):format(torch.type(value))
   end
   local inner = indent and indent .. "   "
   local names, fields = {}, {}
   for i = 1, #value do fields[i] = show(value[i], inner) end
   for name in pairs(value) do
      if math.type(name) ~= "integer" or name < 1 or name > #value then names[#names + 1] = name end
   end
   table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
   for _, name in ipairs(names) do
      local key = is_field_name(name) and name or ("[%s]"):format(show(name))
      fields[#fields + 1] = ("%s = %s"):format(key, show(value[name], inner))
   end
   if #fields == 0 then return "{}" end
   if not indent then return "{" .. table.concat(fields, ", ") .. "}" end
   for i, field in ipairs(fields) do fields[i] = ("%s%s,\n"):format(inner, field) end
   return "{\n" .. table.concat(fields) .. indent .. "}"
end

--- Formats a value as Lua source in one line.
---@param value any
---@return string
function M.show(value) return show(value) end

--- Converts a value to the text that has to be written on the command line to get this value. This
--- function is the inverse of value_of for numbers other than NaN and infinities, booleans, strings
--- and tables of these. A string that looks like a Lua constant, such as "5", is given back only
--- for an option whose value in the configuration is a string already.
---@param value any
---@return string
function M.text_of(value)
   if type(value) == "string" then return value end
   if math.type(value) == "float" then
      local text = ("%.17g"):format(value)
      if tonumber(("%.15g"):format(value)) == value then text = ("%.15g"):format(value) end
      return text:find "[.einf]" and text or text .. ".0"
   end
   return M.show(value)
end

--- Formats a configuration, with the trainer's defaults, as Lua source. The fields `build` and
--- `sweep` are left out.
---@param config table
---@return string
function M.text(config)
   local whole = {model = config.model, data = config.data, seed = config.seed,
      ckpt_path = config.ckpt_path, trainer = {}}
   for _, parameter in ipairs(trainer_options()) do
      whole.trainer[parameter.name] = parameter.default
   end
   for name, value in pairs(config.trainer or {}) do whole.trainer[name] = value end
   return "return " .. show(whole, "")
end

return M
