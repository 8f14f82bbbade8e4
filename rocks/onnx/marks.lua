-- marks.lua - writes the branches of torch.cond as If nodes and the loops of torch.while_loop as
-- Loop nodes. In the list of a program's calls, special calls (marks) delimit the branches and
-- loops. Each kind of mark has a function in this file. The function gets the translation in
-- progress and the index of the mark, and returns the index of the last call that it has
-- translated.

local torch = require "tlua"
local graphs = require "tlua.onnx.graph"
local wire = require "tlua.onnx.wire"

local M = {}

-- Returns the values in the file that belong to a list of the program's values.
local function found(t, list)
   local values = {}
   for i, value in ipairs(list) do
      local item = t.find(value)
      values[i] = type(item) == "table" and item.examples and item or t.b:number(item, "float32")
   end
   return values
end

local function condition(t, call)
   local pred = t.b:cast(t.find(call.args.pred), "bool")
   return t.b:rank(pred) > 0 and t.b:reshape(pred, {}) or pred
end

local function put_results(t, call, results)
   for i, result in ipairs(call.results) do
      result.translated, result.around = results[i], t.b.outer
   end
end

-- Branches ----------------------------------------------------------------------------------------

function M.cond_begin(t, i)
   t.open[#t.open + 1] = {pred = condition(t, t.graph.calls[i])}
   t.b:enter()
   return i
end

function M.cond_else(t, i)
   local branch = t.open[#t.open]
   branch.results = found(t, t.graph.calls[i].args.results)
   branch.first = t.b:leave("then_branch", branch.results)
   t.b:enter()
   return i
end

function M.cond_end(t, i)
   local branch, call = table.remove(t.open), t.graph.calls[i]
   local others = found(t, call.args.results)
   local second = t.b:leave("else_branch", others)
   put_results(t, call, {t.b:choose(branch.pred, branch.first, branch.results, second, others)})
   return i
end

-- Loops -------------------------------------------------------------------------------------------

-- Returns the index of the mark that ends a loop's condition, and the index of the mark that ends
-- the loop.
local function find_end(calls, begin)
   local depth, test = 0, nil
   for i = begin, #calls do
      local name = calls[i].name
      if name == "loop_begin" then depth = depth + 1 end
      if name == "loop_test" and depth == 1 then test = i end
      if name == "loop_end" then
         depth = depth - 1
         if depth == 0 then return test, i end
      end
   end
end

-- Converts a GraphProto to an executable graph by writing it to a file and reading it back.
local function compiled(b, proto)
   local path <const> = os.tmpname()
   local file = assert(io.open(path, "wb"))
   wire.write(file, wire.encode(proto, "GraphProto"))
   file:close()
   local reader = wire.open(path)
   os.remove(path)
   local context = {source = {reader = reader, folder = "", files = {}}, functions = {},
      opsets = {[""] = b.opset}, calls = 0, count = {nodes = 0}}
   return graphs.compile(wire.read(reader, "GraphProto"), context, setmetatable({}, {
      __index = function(_, name) return b.by_name[name] end}))
end

-- Executes a loop for one example.
local function run_loop(b, body, pred, carried, example)
   local scope = setmetatable({}, {__index = function(_, name)
      return b.by_name[name] and b.by_name[name].examples[example]
   end})
   local values, goes_on, n = {}, pred.examples[example], 0
   for i, value in ipairs(carried) do values[i] = value.examples[example] end
   while goes_on:item() do
      values = graphs.run(body, {torch.tensor(n, {dtype = "int64"}), goes_on, table.unpack(values)},
         scope)
      goes_on, n = table.remove(values, 1), n + 1
   end
   return values
end

-- Translates a loop. The condition is computed before the loop. At the end of each iteration it is
-- computed again, for the values of the next iteration. The loop's body may use values that the
-- calls of the condition have computed, so these calls are also repeated at the beginning of the
-- body.
function M.loop_begin(t, begin)
   local b, calls = t.b, t.graph.calls
   local call, test, last = calls[begin], find_end(calls, begin)
   local carried = found(t, call.args.results)
   local open = t.open
   t.open = {}
   local function put_copies(values)
      local copies = {}
      for i, value in ipairs(values) do copies[i] = b:node("Identity", {value}) end
      put_results(t, call, copies)
   end
   local function test_again()
      t.range(t, begin + 1, test - 1)
      return condition(t, calls[test])
   end
   put_copies(carried)
   local pred = test_again()
   b:enter()
   local inputs = {b:input(nil, {}), b:input(nil, {})}
   local inner = {}
   for i, value in ipairs(carried) do
      inner[i] = b:input(nil, value.examples)
      inputs[i + 2] = inner[i]
   end
   put_copies(inner)
   test_again()
   t.range(t, test + 1, last - 1)
   local results = found(t, calls[last].args.results)
   put_copies(results)
   table.insert(results, 1, (test_again()))
   local body = b:leave("body", results, inputs)
   t.open = open
   local examples = {}
   local graph = compiled(b, body)
   for example = 1, b.examples do
      examples[example] = run_loop(b, graph, pred, carried, example)
   end
   put_results(t, call, {b:loop(pred, carried, body, examples)})
   return last
end

return M
