-- graph_code.lua - writes the forward and backward pass of a graph as Lua functions. Each step that
-- has a formula (formulas.lua) becomes a few lines without a search for its function, its inputs or
-- their gradients. Other steps become calls of functions in graph_passes.lua. Graphs of the same
-- structure, such as the clones of a cell over time, share one function.

local tlua = require "tlua"

local M = {}

-- The names of these variables are those in graph_passes.lua. `v` has the outputs of the steps, `G`
-- the gradients of the outputs, `m` the modules, and false stands for a missing gradient. `close`
-- frees the gradient of a step's output and sets the module's gradInput.

local one_tensor <const> = {Linear = true, Sigmoid = true, Tanh = true, LogSoftMax = true,
   Reshape = true, View = true}
local two_tensors <const> = {CAddTable = true, CMulTable = true}

-- Returns the expression for a step's input.
local function input_of(plan, step)
   if step.input then return plan.n_inputs == 1 and "input" or ("input[%d]"):format(step.input) end
   if #step.sources == 1 then return ("v[%d]"):format(step.sources[1]) end
   local list = {}
   for k, source in ipairs(step.sources) do list[k] = ("v[%d]"):format(source) end
   return "{" .. table.concat(list, ", ") .. "}"
end

-- Returns the manner in which a step is computed.
local function manner(step, name)
   if not step.module then return step.select and "select" or "same" end
   if not name or step.input and #step.sources > 0 then return "other" end
   if name == "Identity" then return "identity" end
   if one_tensor[name] and #step.sources <= 1 then return "one" end
   return two_tensors[name] and #step.sources == 2 and "two" or "other"
end

local forward <const> = {
   select = "v[I] = X[SELECT] or X", same = "v[I] = X", other = "v[I] = other(pass, I, X)",
   identity = "y = X v[I], m[I].output = y, y",
   one = "y = result(NAME(m[I], X)) v[I], m[I].output = y, y",
   two = "y = result(NAME(X)) v[I], m[I].output = y, y",
}

local start <const> = "g = G[I] if g then\n"
local give <const> = "a = G[S] if a then G[S] = add(a, p, owned) else G[S] = p end\n"
local give_input <const> = "into[INPUT] = add(into[INPUT], p, owned)\n"
local general <const> = start .. "back_other(pass, I, g, G, into, scale)\nend\n"
local backward <const> = {
   select = start .. "add_to_element(pass, G, S, SELECT, g)\nend\n",
   same = general, other = general,
   identity = start .. "p = Identity(g) close(m[I], g, p)\nTO end\n",
   one = start .. "p = NAME(m[I], X, v[I], g, scale) close(m[I], g, p)\nTO end\n",
   two = start .. [[p, q = NAME(X, g)
if p then
close(m[I], g, p, q)
TO p = q
TO2 else back_other(pass, I, g, G, into, scale) end
end
]],
}

-- Replaces the words of a template by their values.
local function filled(template, values)
   return (template:gsub("%f[%w]%u[%u%d]*%f[%W]", values))
end

local function receiver(step, k)
   if step.input then return (give_input:gsub("INPUT", step.input)) end
   return (give:gsub("S", step.sources[k]))
end

-- Returns the lines of a step in the forward pass and in the backward pass.
local function lines_of(plan, i, name)
   local step = plan[i]
   local how, x = manner(step, name), input_of(plan, step)
   if how == "two" then x = x:sub(2, -2) end
   local values = {I = i, X = x, S = step.sources[1], SELECT = step.select, NAME = name}
   if how == "one" or how == "identity" or how == "two" then values.TO = receiver(step, 1) end
   if how == "two" then values.TO2 = receiver(step, 2) end
   return filled(forward[how], values), filled(backward[how], values)
end

-- Maps texts to functions.
local known = setmetatable({}, {__mode = "v"})

local function function_of(text, functions)
   local made = known[text]
   if not made then
      local chunk, problem = load(text, "=tlua:torch7/graph", "t", functions)
      if not chunk then tlua.raise("nn.gModule: " .. problem) end
      made = chunk()
      known[text] = made
   end
   return made
end

-- Returns the text that makes functions local variables.
local function locals(functions)
   local names = {}
   for name in pairs(functions) do names[#names + 1] = name end
   table.sort(names)
   local list = table.concat(names, ", ")
   return ("local %s = %s\n"):format(list, list)
end

--- Returns whether a step with a formula becomes lines of its own.
---@param step table
---@param name string?  the layer's name in formulas.lua
---@return boolean
function M.is_written(step, name) return manner(step, name) ~= "other" and step.module ~= nil end

--- Returns the functions forward(pass, m, input) and backward(pass, m, v, input, G, into, scale,
--- close, owned) of a graph. The first returns the list of the steps' outputs.
---@param plan table
---@param names table<integer, string>  maps steps to names of formulas
---@param to table<string, function>  the functions that the forward pass calls
---@param from table<string, function>  the functions that the backward pass calls
---@return function forward
---@return function backward
function M.compile(plan, names, to, from)
   local empty = "{" .. ("false, "):rep(#plan) .. "}"
   local first = {locals(to), "return function(pass, m, input)\nlocal y\nlocal v = ", empty, "\n"}
   local second = {locals(from),
      "return function(pass, m, v, input, G, into, scale, close, owned)\nlocal a, g, p, q\n"}
   local backs = {}
   for i = 1, #plan do
      local line, back = lines_of(plan, i, names[i])
      first[#first + 1], backs[#plan + 1 - i] = line .. "\n", back
   end
   table.move(backs, 1, #backs, #second + 1, second)
   first[#first + 1], second[#second + 1] = "return v\nend", "end"
   return function_of(table.concat(first), to), function_of(table.concat(second), from)
end

return M
