-- graph_code.lua - writes the forward and backward pass of a graph as Lua functions. Each step that
-- has a formula (formulas.lua) becomes a few lines without a search for its function, its inputs or
-- their gradients. Other steps become calls of functions in graph_passes.lua. Graphs of the same
-- structure, such as the clones of a cell over time, share one function.

local tlua = require "tlua"

local M = {}

-- The generated functions use these variables, which have the same names in graph_passes.lua: `v`
-- holds the outputs of the steps, `G` the gradients of the outputs, and `m` the modules. In G,
-- false stands for a missing gradient. The function `close` frees the gradient of a step's output
-- and sets the module's gradInput.

local one_tensor <const> = {Linear = true, Sigmoid = true, Tanh = true, LogSoftMax = true,
   Reshape = true, View = true}
local two_tensors <const> = {CAddTable = true, CMulTable = true}

-- Returns Lua code for the input of a step.
local function input_of(plan, step)
   if step.input then return plan.n_inputs == 1 and "input" or ("input[%d]"):format(step.input) end
   if #step.sources == 1 then return ("v[%d]"):format(step.sources[1]) end
   local list = {}
   for k, source in ipairs(step.sources) do list[k] = ("v[%d]"):format(source) end
   return "{" .. table.concat(list, ", ") .. "}"
end

-- Returns the name of the template by which a step is computed: a key of the tables `forward` and
-- `backward` below.
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

-- The template for a CAddTable whose first input is the output of step A and is used by nothing
-- else. The sum may then be written into the memory of this input.
local sum_into <const> = "y, v[A] = sum_into(m[A], v[A], v[B]) v[I], m[I].output = y, y"
-- This line follows a sum. It frees the output of step A, which only this sum uses.
local shed <const> = "\nv[A] = shed(m[A], v[A], y)"

-- The templates for a gate: the product of the output of a Sigmoid (step A) and another output
-- (step B). The lines also compute the Sigmoid, and the Tanh if step B is a Tanh.
local gate_forward <const> = [[
y, p, q = gate(XA, XB, SQUASH)
v[I], v[A], m[I].output, m[A].output = y, p, y, p]]
local tanh_forward <const> = gate_forward .. "\nv[B], m[B].output = q, q"
local gate_backward <const> = start .. [[
p = nil
if owned then p, q = gate_back(g, v[A], v[B], SQUASH) end
if p then
close(m[I], g, p, q)
m[A].gradInput = nil
TOA p = q
TOB else
PLAIN end
end
]]

-- Replaces the placeholders of a template, which are words in capital letters, by their values.
local function filled(template, values)
   return (template:gsub("%f[%w]%u[%u%d]*%f[%W]", values))
end

local function receiver(step, k)
   if step.input then return (give_input:gsub("INPUT", step.input)) end
   return (give:gsub("S", step.sources[k]))
end

-- Returns how often each step's output is used, by other steps or as an output of the graph.
local function uses_of(plan)
   local uses = {}
   for i = 1, #plan do uses[i] = 0 end
   for _, at in ipairs(plan.ends) do uses[at] = uses[at] + 1 end
   for _, step in ipairs(plan) do
      for _, source in ipairs(step.sources) do uses[source] = uses[source] + 1 end
   end
   return uses
end

-- Finds the gates of a graph, products of a Sigmoid's output and another output. Returns a table
-- that maps the step of each product to {a, b, squash}: `a` is the step of the Sigmoid, `b` the
-- step of the other factor, and `squash` is true if step b is a Tanh that nothing else uses. Also
-- returns the set of the steps that the gates compute themselves.
local function gates_of(plan, names)
   local gates, within, uses = {}, {}, uses_of(plan)
   local function is_inner(i, name) return names[i] == name and uses[i] == 1 and not within[i] end
   for i, step in ipairs(plan) do
      if names[i] == "CMulTable" then
         local a, b = step.sources[1], step.sources[2]
         if not is_inner(a, "Sigmoid") then a, b = b, a end
         if is_inner(a, "Sigmoid") then
            local squash = is_inner(b, "Tanh")
            gates[i], within[a] = {a = a, b = b, squash = squash}, true
            if squash then within[b] = true end
         end
      end
   end
   return gates, within
end

-- These layers' outputs are not needed in the backward pass.
local sheds <const> = {Linear = true, CMulTable = true, CAddTable = true}

--- Returns the steps whose outputs the forward pass can free. Only a CAddTable uses such an output,
--- and the backward pass does not need it.
---@param plan table
---@param names table<integer, string>
---@return table<integer, boolean>
function M.shed_steps(plan, names)
   local uses, list = uses_of(plan), {}
   for i, step in ipairs(plan) do
      if names[i] == "CAddTable" then
         for _, source in ipairs(step.sources) do
            list[source] = uses[source] == 1 and sheds[names[source]] or nil
         end
      end
   end
   return list
end

-- Returns the lines of code of a gate for both passes. `plain` has the lines of the product's
-- backward pass.
local function lines_of_gate(plan, i, gate, plain)
   local a, b = plan[gate.a], plan[gate.b]
   local values = {I = i, A = gate.a, B = gate.b, XA = input_of(plan, a),
      SQUASH = tostring(gate.squash)}
   values.XB = gate.squash and input_of(plan, b) or ("v[%d]"):format(gate.b)
   values.TOA = receiver(a, 1)
   values.TOB = gate.squash and ("m[%d].gradInput = nil\n"):format(gate.b) .. receiver(b, 1)
      or receiver(plan[i], plan[i].sources[1] == gate.b and 1 or 2)
   values.PLAIN = plain:sub(#start:gsub("I", i) + 1, -#"end\n" - 1)
   return filled(gate.squash and tanh_forward or gate_forward, values),
      filled(gate_backward, values)
end

-- Returns the lines of code of a step, as one text for the forward pass and one for the backward
-- pass.
local function lines_of(plan, i, name)
   local step = plan[i]
   local how, x = manner(step, name), input_of(plan, step)
   if how == "two" then x = x:sub(2, -2) end
   local values = {I = i, X = x, S = step.sources[1], SELECT = step.select, NAME = name}
   if how == "one" or how == "identity" or how == "two" then values.TO = receiver(step, 1) end
   if how == "two" then values.TO2 = receiver(step, 2) end
   return filled(forward[how], values), filled(backward[how], values)
end

-- Maps the text of a generated function to the function.
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

-- Returns Lua code that makes local variables from a table of functions.
local function locals(functions)
   local names = {}
   for name in pairs(functions) do names[#names + 1] = name end
   table.sort(names)
   local list = table.concat(names, ", ")
   return ("local %s = %s\n"):format(list, list)
end

--- Returns whether generated lines of code compute a step. If not, a general function in
--- graph_passes.lua computes the step.
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
   local first = {locals(to), "return function(pass, m, input)\nlocal y, p, q\nlocal v = ", empty,
      "\n"}
   local second = {locals(from),
      "return function(pass, m, v, input, G, into, scale, close, owned)\nlocal a, g, p, q\n"}
   local backs = {}
   local gates, within = gates_of(plan, names)
   local shed_steps = M.shed_steps(plan, names)
   for i = 1, #plan do
      local line, back = lines_of(plan, i, names[i])
      if within[i] then line = "" end
      if gates[i] then line, back = lines_of_gate(plan, i, gates[i], back) end
      if names[i] == "CAddTable" then
         local a, b = table.unpack(plan[i].sources)
         if shed_steps[a] then line = filled(sum_into, {A = a, B = b, I = i}) end
         if shed_steps[b] then line = line .. filled(shed, {A = b}) end
      end
      first[#first + 1], backs[#plan + 1 - i] = line .. "\n", back
   end
   table.move(backs, 1, #backs, #second + 1, second)
   first[#first + 1], second[#second + 1] = "return v\nend", "end"
   return function_of(table.concat(first), to), function_of(table.concat(second), from)
end

return M
