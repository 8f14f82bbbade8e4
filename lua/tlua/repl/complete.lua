-- complete.lua - completes words: globals and keywords, fields of tables, methods and properties of
-- tensors, and the options of a call. None of the user's functions is called.
local suggest = require "tlua.utils.suggest"

local M = {}

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local
   nil not or repeat return then true until while]]):gmatch("%a+") do
   keywords[word] = true
end

-- The fields of a tensor, other than methods, that are completed.
local properties <const> = {
   "data", "device", "dtype", "grad", "grad_fn", "imag", "is_leaf", "is_parameter",
   "real", "requires_grad", "shape",
}

local function library()
   return package.loaded.tlua
end

local function is_tensor(value)
   local torch = library()
   local check = torch and torch.is_tensor
   return type(value) == "userdata" and check ~= nil and check(value)
end

local function metafield(value, name)
   local meta = debug.getmetatable(value)
   return type(meta) == "table" and rawget(meta, name) or nil
end

-- Returns whether an __index function may be called. C functions and the library's functions only
-- look up values, but a user's function may have side effects.
local function is_harmless(f)
   local info = debug.getinfo(f, "S")
   return info.what == "C" or info.source:sub(1, 6) == "=tlua:"
end

-- Returns value[key]. The chain of __index is followed, but no user's function is called.
local function index(value, key)
   for _ = 1, 100 do -- bounds the search, because the chain of __index may be circular
      if type(value) == "table" then
         local field = rawget(value, key)
         if field ~= nil then return field end
      end
      local handler = metafield(value, "__index")
      if type(handler) == "function" then
         if not is_harmless(handler) then return nil end
         local ok, field = pcall(handler, value, key)
         return ok and field or nil
      end
      if handler == nil then return nil end
      value = handler
   end
end

-- Calls `visit` with the keys that value has itself or inherits.
local function each_key(value, visit)
   if is_tensor(value) then
      for _, name in ipairs(properties) do visit(name) end
      value = library().Tensor
   end
   for _ = 1, 100 do
      if type(value) == "table" then
         for key in next, value do visit(key) end
      end
      -- Lists the fields of the library's tables that are not loaded yet.
      local lazy = package.loaded["tlua.lazy"]
      if lazy and metafield(value, "__index") == lazy.index then
         for key in next, lazy.fields(value) do visit(key) end
      end
      value = metafield(value, "__index")
      if type(value) ~= "table" then return end
   end
end

--- Returns the value that a path such as `model.layers[1]` leads to.
---@param path string
---@param env table  the table of globals
---@return any value  nil if there is none
function M.follow(path, env)
   local name, rest = path:match("^([%a_][%w_]*)(.*)$")
   if not name then return nil end
   local value = index(env, name)
   while rest ~= "" and value ~= nil do
      local key, after = rest:match("^%.([%a_][%w_]*)(.*)$")
      if not key then
         key, after = rest:match("^%[(%-?%d+)%](.*)$")
         key = math.tointeger(key)
      end
      if not key then return nil end
      value, rest = index(value, key), after
   end
   return value
end

local function is_callable(value)
   return type(value) == "function" or metafield(value, "__call") ~= nil
end

-- Returns the path at the text's end. It begins after the last concatenation or open bracket.
local function last_path(text)
   local start = 1
   for position in text:gmatch("%.%.()") do start = position end
   local open = text:find("%[[^%]]*$", start)
   return text:sub(open and open + 1 or start)
end

-- Returns the called function or class if the text ends before a key in a call's options, as in
-- `nn.Linear(3, 1, {bias = false, ` or `optim.Adam(model:parameters(), {`.
local function called(before, env)
   local code = before:gsub("\\.", "__"):gsub('"[^"]*"', '""'):gsub("'[^']*'", "''")
   local open = {}
   for at, bracket in code:gmatch "()([%(%){}%[%]])" do
      if bracket:find "[%({%[]" then open[#open + 1] = at else open[#open] = nil end
   end
   local brace = open[#open]
   if not brace or code:sub(brace, brace) ~= "{" then return nil end
   local key = code:sub(brace + 1):gsub("%b{}", ""):gsub("%b()", ""):match "([^,]*)$"
   if key:find "%S" then return nil end
   local outer = open[#open - 1] or brace
   local path = code:sub(1, brace - 1):match "([%a_][%w_%.:]*)%s*$" -- f {key
      or code:sub(outer, outer) == "(" and code:sub(1, outer - 1):match "([%a_][%w_%.:]*)%s*$"
   local object, method = (path or ""):match "^(.*):([%w_]*)$"
   if not object then return path and M.follow(path, env) end
   local value = M.follow(object, env)
   return value ~= nil and index(value, method) or nil
end

--- Returns the sorted completions of `text`. Each is all of `text` with the last word completed.
---@param text string  the word before the cursor
---@param env table  the table of globals
---@param before? string  the line before that word
---@return string[]
function M.words(text, env, before)
   local callee = before and text:find "^[%w_]*$" and called(before, env)
   if callee then
      local options = {}
      for name in pairs(require "tlua.repl.manual".options(callee)) do
         if name:sub(1, #text) == text then options[#options + 1] = name end
      end
      table.sort(options)
      if options[1] then return options end
   end
   local path = last_path(text)
   local object, separator, partial = path:match("^(.*)([.:])([%w_]*)$")
   if not object then partial = path end
   if partial ~= "" and not partial:find("^[%a_][%w_]*$") then return {} end

   local value = env
   if object then value = M.follow(object, env) end
   if value == nil then return {} end

   local prefix = text:sub(1, #text - #partial)
   local seen, words = {}, {}
   local function visit(key)
      if type(key) ~= "string" or seen[key] or key:sub(1, #partial) ~= partial then return end
      if not key:find("^[%a_][%w_]*$") then return end
      if key:sub(1, 1) == "_" and partial == "" then return end -- private
      if separator == ":" and not is_callable(index(value, key)) then return end
      seen[key] = true
      words[#words + 1] = prefix .. key
   end
   each_key(value, visit)
   if not object then
      for keyword in next, keywords do visit(keyword) end
   end
   table.sort(words)
   return words
end

--- Returns the name of the function in the table at `path` that is nearest to a misspelt `name`.
---@param path string "torch.nn"; "" for globals
---@param name string
---@param env table the table of globals
---@return string?
function M.meant(path, name, env)
   local value = env
   if path ~= "" then value = M.follow(path, env) end
   if value == nil then return nil end
   local names = {}
   each_key(value, function(key)
      if type(key) == "string" and is_callable(index(value, key)) then names[key] = true end
   end)
   return suggest.nearest(name, names)
end

return M
