-- Tests gradient edges (torch.autograd.graph.GradientEdge), and zero gradients for unused inputs. The expected values
-- are PyTorch's results for the same calls.

local torch = require "tlua"

local graph = torch.autograd.graph

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

-- Returns three tensors: x, h = x * x and y = sum(h * h * x).
local function chain()
   local x = leaf {1, 2}
   local h = x * x
   return x, h, (h * h * x):sum()
end

local keep <const> = {retain_graph = true}

describe("get_gradient_edge", function()
   it("returns the node and the position of the result, from 1", function()
      local x, h = chain()
      local edge = graph.get_gradient_edge(h)
      assert.equal("<MulBackward0>", tostring(edge.node))
      assert.equal(1, edge.output_nr)
      assert.equal(h.grad_fn, edge.node)
      local node, output = table.unpack(edge)
      assert.equal(edge.node, node)
      assert.equal(1, output)
      assert.equal("GradientEdge(node=<MulBackward0>, output_nr=1)", tostring(edge))
      assert.equal("GradientEdge(node=<AccumulateGrad>, output_nr=1)", tostring(graph.get_gradient_edge(x)))
   end)

   it("distinguishes the results of one node", function()
      local _, r = torch.linalg.qr(leaf {{1, 2}, {3, 5}})
      assert.equal(2, r.output_nr)
      assert.equal(2, graph.get_gradient_edge(r).output_nr)
      assert.equal(1, leaf(1).output_nr)
   end)

   it("refuses a tensor that requires no gradient", function()
      assert.raises("get_gradient_edge: tensor: expected one that requires a gradient",
         function() graph.get_gradient_edge(torch.ones(2)) end)
      assert.raises("get_gradient_edge", "nil", function() graph.get_gradient_edge(nil) end)
   end)

   it("does not keep the tensor alive", function()
      local x = leaf {1, 2}
      local h = x * 2
      local edge = graph.get_gradient_edge(h)
      local weak = setmetatable({h}, {__mode = "v"})
      h = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      assert.is_nil(weak[1])
      assert.close({2, 2}, torch.autograd.grad(edge, x, {grad_outputs = torch.ones(2, {dtype = "float64"})}))
   end)
end)

describe("GradientEdge", function()
   it("consists of the two parts that next_functions contains", function()
      local x, h, y = chain()
      local edge = graph.GradientEdge(table.unpack(h.grad_fn.next_functions[1]))
      assert.equal(graph.get_gradient_edge(x), edge)
      assert.close({5, 80}, (torch.autograd.grad(y, edge)))
   end)

   it("refuses values that are not a node or one of its results", function()
      local x, h = chain()
      assert.raises("GradientEdge: node: expected a node", "3", function() graph.GradientEdge(3, 1) end)
      assert.raises("GradientEdge: node", function() graph.GradientEdge(h, 1) end)
      assert.raises("GradientEdge: output_nr: expected an integer from 1 to 1, got 2",
         function() graph.GradientEdge(h.grad_fn, 2) end)
      assert.raises("output_nr", "0", function() graph.GradientEdge(x, 0) end)
   end)
end)

describe("autograd.grad with gradient edges", function()
   it("accepts edges as inputs", function()
      local x, h, y = chain()
      local dh, dx = torch.autograd.grad(y, {graph.get_gradient_edge(h), graph.get_gradient_edge(x)})
      assert.close({2, 16}, dh)
      assert.close({5, 80}, dx)
   end)

   it("accepts edges as outputs, beside tensors", function()
      local x, h, y = chain()
      local dh, dx = torch.autograd.grad(graph.get_gradient_edge(y), {h, x}, keep)
      assert.close({2, 16}, dh)
      assert.close({5, 80}, dx)
      local edge = graph.get_gradient_edge(h)
      assert.close({6, 16}, (torch.autograd.grad(edge, {x}, {
         grad_outputs = torch.tensor({3, 4}, {dtype = "float64"}), retain_graph = true,
      })))
      assert.close({7, 84}, (torch.autograd.grad({y, edge}, x, {
         grad_outputs = {false, torch.ones(2, {dtype = "float64"})},
      })))
   end)

   it("still refers to the old value after an in-place change", function()
      local x = leaf {1, 2}
      local h = x * 3
      local edge = graph.get_gradient_edge(h)
      h:mul_(5)
      local dh, before = torch.autograd.grad(h:sum(), {h, edge})
      assert.close({1, 1}, dh)
      assert.close({5, 5}, before)
   end)

   it("requires an initial gradient of the right shape and dtype", function()
      local x, h = chain()
      local edge = graph.get_gradient_edge(h)
      assert.raises("only a tensor with one element", "[2]", function() torch.autograd.grad(edge, x) end)
      assert.raises("expected a gradient of shape [2], got [3]",
         function() torch.autograd.grad(edge, x, {grad_outputs = torch.ones(3, {dtype = "float64"})}) end)
      assert.raises("dtype float64, got float32",
         function() torch.autograd.grad(edge, x, {grad_outputs = torch.ones(2)}) end)
      assert.raises("autograd.grad: inputs[2]: expected a Tensor or a gradient edge, got", "7",
         function() torch.autograd.grad(h:sum(), {edge, 7}) end)
   end)
end)

describe("backward with gradient edges", function()
   it("adds to the leaves of edges among the inputs", function()
      local x, _, y = chain()
      torch.autograd.backward(graph.get_gradient_edge(y), {inputs = {graph.get_gradient_edge(x)}})
      assert.close({5, 80}, x.grad)
   end)

   it("begins at tensors and edges alike", function()
      local x, h, y = chain()
      torch.autograd.backward({graph.get_gradient_edge(y), graph.get_gradient_edge(h)},
         {false, torch.ones(2, {dtype = "float64"})})
      assert.close({7, 84}, x.grad)
   end)

   it("refuses the edge of a tensor that is no leaf as an input", function()
      local _, h, y = chain()
      assert.raises("backward: input 1: expected the edge of a leaf", "autograd.grad",
         function() torch.autograd.backward(y, {inputs = {graph.get_gradient_edge(h)}}) end)
   end)
end)

describe("materialize_grads", function()
   it("returns zeros for inputs on which no output depends", function()
      local x, z = leaf {1, 2}, leaf {1, 1, 1}
      local y = (x * x):sum()
      local dx, dz = torch.autograd.grad(y, {x, z}, {materialize_grads = true, retain_graph = true})
      assert.close({2, 4}, dx)
      assert.close({0, 0, 0}, dz)
      assert.equal("float64", dz.dtype)
      assert.is_false(dz.requires_grad)
      local _, second = torch.autograd.grad(y, {x, z}, {materialize_grads = true, create_graph = true})
      assert.is_true(second.requires_grad)
   end)

   it("returns zeros for an edge", function()
      local x, z = leaf {1, 2}, leaf {1, 1, 1}
      local dz = torch.autograd.grad((x * x):sum(), graph.get_gradient_edge(z * 2), {materialize_grads = true})
      assert.close({0, 0, 0}, dz)
   end)

   it("is refused together with allow_unused = false", function()
      local x = leaf {1, 2}
      assert.raises("autograd.grad: allow_unused", "materialize_grads",
         function() torch.autograd.grad((x * x):sum(), x, {materialize_grads = true, allow_unused = false}) end)
   end)
end)
