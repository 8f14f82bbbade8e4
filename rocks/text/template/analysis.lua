-- analysis.lua - finds the names that are undefined when a block of a template begins. If a block
-- sets a name before it reads the name, the name is undefined from the beginning of the block, as
-- in Jinja. So a nested block before the assignment does not see an outer variable of this name.

local M = {}

local visit = {}

local function new_frame(parent) return {refs = {}, hidden = {}, parent = parent} end

local function known(frame, name)
   while frame do
      if frame.refs[name] then return true end
      frame = frame.parent
   end
   return false
end

local function load(frame, name)
   if not known(frame, name) then frame.refs[name] = true end
end

local function store(frame, name, is_conditional)
   if frame.refs[name] then return end
   if not is_conditional and not known(frame.parent, name) then
      table.insert(frame.hidden, name)
   end
   frame.refs[name] = true
end

local function store_target(frame, target, is_conditional)
   if target.namespace then
      load(frame, target.namespace)
   elseif target.name then
      store(frame, target.name, is_conditional)
   else
      for _, inner in ipairs(target) do store_target(frame, inner, is_conditional) end
   end
end

-- Records that all names in an expression are read.
local function load_all(frame, node)
   if type(node) ~= "table" then return end
   if node.kind == "name" then load(frame, node.name) end
   for _, child in pairs(node) do
      if type(child) == "table" then load_all(frame, child) end
   end
end

local function declare(frame, target)
   if target.name then
      frame.refs[target.name] = true
   else
      for _, inner in ipairs(target) do declare(frame, inner) end
   end
end

local function body(frame, nodes, is_conditional)
   for _, node in ipairs(nodes) do
      if visit[node.kind] then visit[node.kind](frame, node, is_conditional) end
   end
end

-- Analyses the nested blocks of a block, after the block's own names are known.
local function inner_blocks(frame, nodes)
   for _, node in ipairs(nodes) do
      if node.kind == "if" then
         for _, branch in ipairs(node.branches) do inner_blocks(frame, branch.body) end
         if node.otherwise then inner_blocks(frame, node.otherwise) end
      else
         local macro = node.kind == "call_block" and node.macro or node
         if macro.body then
            local inner = new_frame(frame)
            for _, parameter in ipairs(macro.parameters or {}) do declare(inner, parameter) end
            if node.kind == "for" then
               inner.refs.loop = true
               declare(inner, node.target)
            end
            for _, target in ipairs(node.targets or {}) do declare(inner, target) end
            body(inner, macro.body)
            macro.hidden = #inner.hidden > 0 and inner.hidden or nil
            inner_blocks(inner, macro.body)
         end
         if node.kind == "for" and node.otherwise then
            local inner = new_frame(frame)
            body(inner, node.otherwise)
            inner_blocks(inner, node.otherwise)
         end
      end
   end
end

function visit.output(frame, node) load_all(frame, node.value) end

function visit.set(frame, node, is_conditional)
   load_all(frame, node.value)
   store_target(frame, node.target, is_conditional)
end

function visit.set_block(frame, node, is_conditional)
   store_target(frame, node.target, is_conditional)
end

function visit.macro(frame, node, is_conditional) store(frame, node.name, is_conditional) end
function visit.call_block(frame, node) load_all(frame, node.call) end
function visit.filter_block(frame, node) load_all(frame, node.filter.args) end
visit["for"] = function(frame, node) load_all(frame, node.iterable) end
visit["with"] = function(frame, node) load_all(frame, node.values) end

visit["if"] = function(frame, node)
   for _, branch in ipairs(node.branches) do
      load_all(frame, branch.test)
      body(frame, branch.body, true)
   end
   body(frame, node.otherwise or {}, true)
end

--- Sets the field `hidden` of each block's node to the names that are undefined at the block's
--- beginning.
---@param nodes table[]  a template; the list's own `hidden` is for the outermost block
function M.analyse(nodes)
   local frame = new_frame(nil)
   body(frame, nodes)
   nodes.hidden = #frame.hidden > 0 and frame.hidden or nil
   inner_blocks(frame, nodes)
end

return M
