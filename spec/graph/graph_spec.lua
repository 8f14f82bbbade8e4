-- Tests program:graph(). An unchanged graph must become the same program again. A rewritten graph must compute what its
-- nodes describe.

local torch = require "tlua"
local saved = require("spec.support.programs").saved
local nn = torch.nn

local function text_of(program) return (tostring(program):gsub("; [^\n]*$", "")) end

-- Folds each batch_norm into the convolution before it. The formula is computed in float64.
local function fold_batch_norm(program)
   local graph, state = program:graph(), program:state_dict()
   local function value(node) return state[node.target]:double() end
   for _, node in ipairs({table.unpack(graph.nodes)}) do
      local conv = node.target == "batch_norm" and node.args.input
      if conv and conv.target == "conv2d" and #conv:users() == 1 then
         local scale = value(node.args.weight) / (value(node.args.running_var) + node.args.eps):sqrt()
         local weight = value(conv.args.weight) * scale:view(-1, 1, 1, 1)
         local bias = (value(conv.args.bias) - value(node.args.running_mean)) * scale + value(node.args.bias)
         conv.args.weight = graph:create_node("get_attr", conv.args.weight.target .. ".folded", weight:float())
         conv.args.bias = graph:create_node("get_attr", conv.args.bias.target .. ".folded", bias:float())
         node:replace_all_uses_with(conv)
         graph:erase_node(node)
      end
   end
   graph:eliminate_dead_code()
   return graph:program()
end

describe("a program's graph", function()
   before_each(function() torch.manual_seed(1) end)

   it("becomes the same program again", function()
      local function check(model, sets, options)
         if type(model) == "table" then model:eval() end
         local program = torch.export(model, sets[1], options)
         local graph = program:graph()
         graph:lint()
         local again = graph:program()
         assert.equal(text_of(program), text_of(again))
         local loaded = saved(again)
         for _, set in ipairs(sets) do
            local expected = table.pack(program(table.unpack(set)))
            for _, p in ipairs {again, loaded} do
               for i, result in ipairs {p(table.unpack(set))} do assert(expected[i]:equal(result)) end
            end
         end
      end
      local lstm = nn.LSTM(4, 6, {batch_first = true})
      check(function(input) return (lstm(input)) end, {{torch.randn(2, 5, 4)}, {torch.randn(3, 2, 4)}},
            {dynamic = {input = {1, 2}}})
      check(nn.TransformerEncoderLayer(16, 4, {dim_feedforward = 32, batch_first = true}), {{torch.randn(2, 5, 16)}})
      check(function(x)
         local values, at = x:topk(2)
         return values * x:size(1) + 0.5, at, x:view(x:size(1) * x:size(2)):sum(), 2 ^ x, torch.cat {x, x}, x:clamp(-1)
      end, {{torch.randn(4, 5)}, {torch.randn(3, 7)}}, {dynamic = {x = {1, 2}}})
      check(function(x) return x:masked_fill(x:gt(0), -math.huge):softmax(2), x[torch.tensor {1, -1}] end,
            {{torch.randn(3, 3)}})
   end)

   it("has nodes with names, arguments and users", function()
      local program = torch.export(nn.Sequential(nn.Linear(3, 2), nn.Sigmoid()):eval(), {torch.ones(4, 3)})
      local graph, ops = program:graph(), {}
      for _, node in ipairs(graph.nodes) do ops[#ops + 1] = node.op .. " " .. node.target end
      assert.same({"placeholder input", "get_attr 1.weight", "get_attr 1.bias", "call_function linear",
                   "call_function sigmoid", "output output"}, ops)
      local linear = graph.nodes[4]
      assert.equal("1.weight", linear.args.weight.target)
      assert.equal("sigmoid", linear:users()[1].name)
      assert.equal("sigmoid", graph.nodes[6].args[1].name)
   end)

   it("counts dimensions from 1", function()
      local program = torch.export(function(x) return x:sum {1, -1}:add(x:select(2, 3):sum(1)) end, {torch.ones(2, 4)})
      local graph = program:graph()
      for _, node in ipairs(graph.nodes) do
         if node.target == "select" then
            assert.same({2, 3}, {node.args.dim, node.args.index})
            node.args.index = 4
         end
      end
      local x = torch.randn(2, 4)
      assert(graph:program()(x):allclose(x:sum() + x:select(2, 4):sum()))
      for _, node in ipairs(graph.nodes) do
         if node.target == "select" then node.args.dim = 0 end
      end
      assert.error_matches(function() graph:program() end, "expected dimensions and positions from 1, got 0")
   end)

   it("counts positions that depend on sizes from 1", function()
      local program = torch.export(function(x)
         return x:select(1, x:size(1)), x:narrow(1, x:size(1) - 1, 2), torch.ones(x:size(1) * 2)
      end, {torch.ones(7)}, {dynamic = {x = {[1] = {name = "n", min = 3, max = 20}}}})
      assert.matches("select(x, dim = 1, index = n)", tostring(program), 1, true)
      assert.matches("narrow(x, dim = 1, start = n - 1, length = 2)", tostring(program), 1, true)
      local graph = program:graph()
      local select, narrow, ones = graph.nodes[2], graph.nodes[3], graph.nodes[4]
      assert.same({"n", "n - 1", "2 * n"}, {tostring(select.args.index), tostring(narrow.args.start),
         tostring(ones.args.size[1])})
      assert.equal(text_of(program), text_of(graph:program()))
      -- The argument `index` counts positions from 1, and sizes do not. Exchanging their values must not change the
      -- values.
      ones.args.size[1], select.args.index = select.args.index, narrow.args.start
      local again = graph:program()
      local x = torch.arange(9.0)
      local a, _, c = again(x)
      assert.equal(7, a:item())
      assert.same({9}, table.move(c.shape, 1, 1, 1, {}))
   end)

   it("is rewritten", function()
      local program = torch.export(nn.Sequential(nn.Linear(3, 2), nn.Sigmoid()):eval(), {torch.randn(4, 3)})
      local graph = program:graph()
      local linear, relu = graph.nodes[4], graph.nodes[5]
      local other = graph:inserting_before(relu):create_node("call_function", "tanh", {self = linear})
      assert.equal(1, relu:replace_all_uses_with(other))
      graph:erase_node(relu)
      local x = torch.randn(4, 3)
      local state = program:state_dict()
      assert(graph:program()(x):equal(nn.functional.linear(x, state["1.weight"], state["1.bias"]):tanh()))
   end)

   it("folds batch norm into convolutions", function()
      local model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 3),
                                  nn.BatchNorm2d(3))
      for _ = 1, 3 do model(torch.randn(4, 2, 8, 8) * 3 + 1) end
      model:eval()
      local x = torch.randn(2, 2, 8, 8)
      local program = torch.export(model, {x}, {dynamic = {input = {1}}})
      local folded = fold_batch_norm(program)
      assert.falsy(tostring(folded):find "batch_norm")
      assert(folded(x):allclose(program(x), {rtol = 1e-5, atol = 1e-5}))
      x = torch.randn(5, 2, 8, 8)
      assert(folded(x):allclose(model(x):detach(), {rtol = 1e-5, atol = 1e-5}))
   end)

   it("refuses what is no graph", function()
      local program = torch.export(nn.Sequential(nn.Linear(3, 2), nn.Sigmoid()):eval(), {torch.randn(4, 3)})
      local graph = program:graph()
      local linear, relu = graph.nodes[4], graph.nodes[5]
      local function refused(pattern, fn) assert.error_matches(fn, pattern, 1, true) end
      refused("export.Graph.erase_node: linear is an argument of sigmoid", function() graph:erase_node(linear) end)
      refused("programs have no operator sigmoidx", function() graph:create_node("call_function", "sigmoidx", {}) end)
      refused("did you mean self", function() graph:create_node("call_function", "tanh", {self_ = linear}) end)
      refused("expected a node of the same graph", function() relu:replace_all_uses_with(3) end)
      linear.args.input = relu
      refused("linear has the argument sigmoid, which does not come before it", function() graph:program() end)
      linear.args.input = program:graph().nodes[1]
      refused("which belongs to another graph", function() graph:program() end)
      linear.args.inputs = 3
      refused("did you mean input", function() graph:program() end)
      linear.args.inputs = nil
      graph.nodes[6].args[1] = nil
      linear.args.input = graph.nodes[1]
      refused("expected 1 outputs, as in the exported call, got 0", function() graph:program() end)
      graph.nodes[6].args[1] = relu
      linear.target = "linearx"
      refused("programs have no operator linearx", function() graph:program() end)
      linear.target = "linear"
      linear.args.input = nil
      refused("argument input does not fit", function() graph:program() end)
   end)

   it("has the calls of a pattern replaced by others", function()
      local F <const> = nn.functional
      local function graph_of(fn, ...) return torch.export(fn, {...}):graph() end
      local x, w, b = torch.randn(3, 4), torch.randn(4, 4), torch.randn(4)
      local function product(u, v, c) return u:matmul(v:t()) + c end
      local function layer(u, v, c) return F.linear(u, v, c) end
      local pattern, replacement = graph_of(product, x, w, b), graph_of(layer, x, w, b)
      local model = nn.Linear(4, 4)
      function model.forward(self, y)
         y = product(y, self.weight, self.bias):relu()
         return product(y, self.weight, self.bias) * 2, y
      end
      local program = torch.export(model, {x})
      local graph = program:graph()
      assert.equal(2, graph:replace_pattern(pattern, replacement))
      assert.equal(0, graph:replace_pattern(pattern, replacement))
      graph:eliminate_dead_code()
      local again = graph:program()
      assert.equal(2, select(2, tostring(again):gsub("linear%(", "")))
      assert.equal(0, select(2, tostring(again):gsub("matmul%(", "")))
      local expected, got = {program(x)}, {again(x)}
      for i = 1, 2 do assert(torch.allclose(got[i], expected[i], 1e-5, 1e-5)) end
      -- The pattern uses its input twice. The graph also has numbers and constants as arguments, and calls whose
      -- arguments are calls that match.
      local function twice(u) return u * u end
      graph = graph_of(function(y)
         local s = y * y
         return s * s + y * 2 + (y * y) * s
      end, b)
      assert.equal(3, graph:replace_pattern(graph_of(twice, b), graph_of(function(u) return u:square() end, b)))
      again = graph:program()
      assert.equal(3, select(2, tostring(again):gsub("= square%(", "")))
      assert.equal(2, select(2, tostring(again):gsub("= mul%(", "")))
      assert(again(b):equal(b:square():square() + b * 2 + b:square() * b:square()))
   end)

   it("replaces a pattern that uses one result of several", function()
      local x = torch.tensor {{1.0, 5, 2}, {4, 3, 9}}
      local function graph_of(fn) return torch.export(fn, {x}):graph() end
      local pattern = graph_of(function(y) return (y:max(2)) end)
      local replacement = graph_of(function(y) return y:amax(2) end)
      local graph = graph_of(function(y) return y:max(2) * 2 end)
      assert.equal(1, graph:replace_pattern(pattern, replacement))
      assert.is_nil(tostring(graph):find "getitem")
      assert.same({10, 18}, graph:program()(x):tolist())
      -- This graph also uses the second result of max, which the replacement would not give, so the pattern does not
      -- match.
      local both = graph_of(function(y) local v, at = y:max(2) return v * at end)
      assert.equal(0, both:replace_pattern(pattern, replacement))
      -- Only the second result is used, so the first pattern does not match, but a pattern with one more call does.
      local at = graph_of(function(y) return select(2, y:max(2)) + 1 end)
      assert.equal(0, at:replace_pattern(pattern, replacement))
      assert.equal(1, at:replace_pattern(graph_of(function(y) return select(2, y:max(2)) + 1 end),
         graph_of(function(y) return y:argmax(2) + 1 end)))
      assert.same({3, 4}, at:program()(x):tolist())
      -- here the replacement is the operator that has several results
      local again = graph_of(function(y) return y:amax(2) - 1 end)
      assert.equal(1, again:replace_pattern(replacement, pattern))
      assert.same({4, 8}, again:program()(x):tolist())
   end)

   it("takes equal constants for one another, but not a parameter of equal value", function()
      local x, ones, others = torch.ones(2), torch.ones(2), torch.ones(2)
      local function graph_of(fn) return torch.export(fn, {x}):graph() end
      local pattern = graph_of(function(y) return y * others end)
      local itself = graph_of(function(y) return y * 1 end)
      local scale = torch.class("Scale", torch.nn.Module)
      function scale:__init()
         torch.nn.Module.__init(self)
         self.gain = torch.nn.Parameter(torch.ones(2))
         self:register_buffer("shift", torch.ones(2))
      end
      function scale:forward(y) return y * self.gain * self.shift end
      local model, free = scale(), torch.ones(2):requires_grad_()
      assert.equal(0, graph_of(model):replace_pattern(pattern, itself))
      assert.equal(0, graph_of(function(y) return y * free end):replace_pattern(pattern, itself))
      assert.equal(1, graph_of(function(y) return y * ones end):replace_pattern(pattern, itself))
      -- The pattern matches the model's own parameter, but not another parameter of equal value.
      local own = graph_of(function(y) return y * model.gain end)
      assert.equal(1, graph_of(model):replace_pattern(own, itself))
      assert.equal(0, graph_of(scale()):replace_pattern(own, itself))
   end)

   it("keeps a view of a pattern or a replacement before a later change of a tensor", function()
      local x = torch.ones(2, 2)
      local function graph_of(fn) return torch.export(fn, {x}):graph() end
      local turned, copied = graph_of(function(y) return y:t() end), graph_of(function(y) return y:t() * 1 end)
      local function changed(y)
         local z = y * 2
         local turn = z:t()
         z:add_(1)
         return turn
      end
      local graph = graph_of(changed)
      assert.equal(0, graph:replace_pattern(turned, copied))
      assert.same(changed(x):tolist(), graph:program()(x):tolist())
      -- the pattern's result is a copy, but the replacement's result would be a view
      local function kept(y)
         local z = y * 2
         local turn = z:t() * 1
         z:add_(1)
         return turn
      end
      graph = graph_of(kept)
      assert.equal(0, graph:replace_pattern(copied, turned))
      assert.same(kept(x):tolist(), graph:program()(x):tolist())
      assert.equal(1, graph_of(function(y) return y:exp():t() + 1 end):replace_pattern(turned, copied))
      local viewed = graph_of(function(y) return (y:exp():view(4)) end)
      assert.equal(1, viewed:replace_pattern(graph_of(function(y) return y:view(4) end),
         graph_of(function(y) return y:reshape(4) end)))
   end)

   it("keeps calls of a pattern that others use, or before which a tensor changes", function()
      local function graph_of(fn) return torch.export(fn, {torch.ones(2)}):graph() end
      local pattern = graph_of(function(x) return x:exp():log() end)
      local replacement = graph_of(function(x) return x * 1 end)
      assert.equal(0, graph_of(function(x) local y = x:exp() return y:log() + y end)
         :replace_pattern(pattern, replacement))
      assert.equal(0, graph_of(function(x) local z = x * 1 local y = z:exp() z:add_(1) return y:log() + z end)
         :replace_pattern(pattern, replacement))
      assert.equal(1, graph_of(function(x) return x:exp():log() end):replace_pattern(pattern, replacement))
      -- x * 1 has its own memory, but x itself is the input. So the replacement would turn a copy into a view.
      local times_1, itself = graph_of(function(x) return x * 1 end), graph_of(function(x) return x end)
      local changed = graph_of(function(x)
         local y = x:exp()
         local z = y * 1
         return z:add_(5) + y
      end)
      assert.equal(0, changed:replace_pattern(times_1, itself))
      assert.equal(1, graph_of(function(x) return x:exp() * 1 + 2 end):replace_pattern(times_1, itself))
      -- 0.0 and -0.0 are different constants, so a pattern with 0.0 must not match -0.0
      local times_0 = graph_of(function(x) return x * 0.0 end)
      assert.equal(0, graph_of(function(x) return x * -0.0 end):replace_pattern(times_0, itself))
      assert.equal(1, graph_of(function(x) return x * 0.0 end):replace_pattern(times_0, itself))
      -- a call that comes from a replacement is not replaced again
      local twice = graph_of(function(x) return x:exp():exp() end)
      local thrice = graph_of(function(x) return x:exp():exp():exp() end)
      assert.equal(1, thrice:replace_pattern(twice, graph_of(function(x) return x:sin():exp() end)))
      assert.equal("x sin exp exp output", (function()
         local names = {}
         for i, node in ipairs(thrice.nodes) do names[i] = node.target end
         return table.concat(names, " ")
      end)())
      -- an input of the pattern is itself a match of the pattern
      local function two_inputs(fn) return torch.export(fn, {torch.ones(2), torch.ones(2)}):graph() end
      local itself_twice = graph_of(function(x) local y = x:exp() return y + y end)
      assert.equal(0, itself_twice:replace_pattern(two_inputs(function(a, b) return a:exp() + b end),
         two_inputs(function(a, b) return b - a end)))
      local without_second, both = two_inputs(function(a) return a:exp() end), two_inputs(torch.add)
      assert.raises("pattern: it does not use input_2, which the replacement uses",
         function() itself_twice:replace_pattern(without_second, both) end)
      local function refused(text, ...)
         local arguments = table.pack(...)
         assert.raises("export.Graph.replace_pattern: " .. text, function()
            pattern:replace_pattern(table.unpack(arguments, 1, arguments.n))
         end)
      end
      refused("pattern: expected a graph, got nil")
      refused("replacement: expected a graph, got 1", pattern, 1)
      refused("pattern: expected a call as its result, got placeholder", graph_of(function(x) return x end), pattern)
      refused("pattern: expected a graph with one result and fixed sizes", graph_of(function(x) return x, x + 1 end),
         pattern)
      refused("pattern: expected calls without effects, got add_", graph_of(function(x) return (x * 1):add_(1) end),
         pattern)
      local two = torch.export(function(x, y) return x + y end, {torch.ones(2), torch.ones(2)}):graph()
      refused("replacement: expected 1 inputs, as of the pattern, got 2", pattern, two)
   end)
end)

describe("torch.fx", function()
   it("gives graphs whose nodes have shapes and dtypes", function()
      local model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.LSTM(16, 5)):eval()
      local graph = torch.fx.symbolic_trace(model, {torch.randn(2, 1, 6, 6)})
      local shapes = {}
      for _, node in ipairs(graph.nodes) do
         if node.meta.shape and node.op ~= "get_attr" then
            shapes[#shapes + 1] = ("%s %s"):format(node.target, table.concat(node.meta.shape, "x"))
            assert.equal("float32", node.meta.dtype)
         end
      end
      assert.same({"input 2x1x6x6", "conv2d 2x4x4x4", "getitem 2x4x2x2", "flatten 2x16", "unsqueeze 2x1x16",
         "getitem 2x1x5", "getitem 1x1x5", "getitem 1x1x5", "squeeze 1x5", "squeeze 1x5", "squeeze 2x5"}, shapes)
      local function fn(x) return x:gt(1):sum(2) end
      local made = torch.fx.symbolic_trace(fn, torch.ones(2, 3))
      assert.equal("bool", made.nodes[2].meta.dtype)
      assert.equal("int64", made.nodes[3].meta.dtype)
      assert.equal(torch.ones(1).device, made.nodes[3].meta.device)
   end)

   it("refuses what it cannot trace", function()
      local graph = torch.fx.symbolic_trace(nn.ReLU(), torch.ones(2))
      assert.raises("fx.symbolic_trace", "model: expected", function() torch.fx.symbolic_trace(1, {}) end)
      assert.raises("fx.symbolic_trace", "inputs: expected", function() torch.fx.symbolic_trace(nn.ReLU(), 1) end)
      assert.raises("fx.replace_pattern", "graph: expected", function() torch.fx.replace_pattern(nn.ReLU()) end)
      assert.raises("export.Graph.propagate", "inputs: expected 1 tensors, got 0", function() graph:propagate() end)
      assert.equal(0, torch.fx.replace_pattern(graph, torch.fx.symbolic_trace(nn.Tanh(), torch.ones(2)), graph))
   end)
end)
