-- Compares layers with PyTorch Geometric's: their results, and the gradients of inputs and parameters. The weights come
-- from PyTorch Geometric's state dicts. fixtures/layers.py has recorded all values.

local torch = require "tlua"
local device = require "spec.support.device"
local sorted = require "spec.support.sorted"

local graphs = torch.graphs
local N = graphs.nn
local folder <const> = "rocks/graphs/spec/fixtures/"
local recorded = device.moved(torch.load(folder .. "layers.safetensors"))

-- Returns the recorded tensors of a case whose names begin with folder_name.
local function part(case, folder_name)
   local found, prefix = {}, case .. "/" .. folder_name .. "/"
   for name, value in pairs(recorded) do
      if name:sub(1, #prefix) == prefix then found[name:sub(#prefix + 1)] = value end
   end
   return found
end

local function mlp(a, b, c)
   return torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Linear(b, c))
end

-- Each case has the constructor of a layer and the names of the arguments of its forward.
local cases = {
   ["gcn"] = {function() return N.GCNConv(4, 3) end},
   ["gcn weight"] = {function() return N.GCNConv(4, 3) end, "edge_weight"},
   ["gcn improved"] = {function() return N.GCNConv(4, 3, {improved = true, bias = false}) end},
   ["gcn plain"] = {function() return N.GCNConv(4, 3, {normalize = false}) end, "edge_weight"},
   ["gcn reverse"] = {function() return N.GCNConv(4, 3, {flow = "target_to_source"}) end},
   ["gat"] = {function() return N.GATConv(4, 3, {heads = 2}) end},
   ["gat mean"] = {function()
      return N.GATConv(4, 3, {heads = 2, concat = false, add_self_loops = false, negative_slope = 0.1})
   end},
   ["gat edge"] = {function() return N.GATConv(4, 3, {heads = 2, edge_dim = 3}) end},
   ["gat residual"] = {function() return N.GATConv(4, 3, {heads = 2, residual = true}) end},
   ["gat pair"] = {function() return N.GATConv({4, 4}, 3, {heads = 2, add_self_loops = false}) end},
   ["gatv2"] = {function() return N.GATv2Conv(4, 3, {heads = 2}) end},
   ["gatv2 shared"] = {function()
      return N.GATv2Conv(4, 3, {heads = 2, share_weights = true, concat = false})
   end},
   ["gatv2 edge"] = {function() return N.GATv2Conv(4, 3, {heads = 2, edge_dim = 3, fill_value = "max"}) end},
   ["sage"] = {function() return N.SAGEConv(4, 3) end},
   ["sage max"] = {function() return N.SAGEConv(4, 3, {aggr = "max", normalize = true}) end},
   ["sage several"] = {function()
      return N.SAGEConv(4, 3, {aggr = {"mean", "max", "std"}, root_weight = false})
   end},
   ["sage project"] = {function() return N.SAGEConv(4, 3, {project = true}) end},
   ["sage pair"] = {function() return N.SAGEConv({4, 4}, 3) end},
   ["gin"] = {function() return N.GINConv(mlp(4, 5, 3), {eps = 0.3, train_eps = true}) end},
   ["gine"] = {function() return N.GINEConv(mlp(4, 5, 3), {edge_dim = 3}) end},
   ["graph"] = {function() return N.GraphConv(4, 3) end},
   ["graph mean"] = {function() return N.GraphConv(4, 3, {aggr = "mean"}) end},
   ["edge"] = {function() return N.EdgeConv(mlp(8, 5, 3)) end},
   ["cheb"] = {function() return N.ChebConv(4, 3, 3) end},
   ["cheb rw"] = {function() return N.ChebConv(4, 3, 4, {normalization = "rw"}) end},
   ["appnp"] = {function() return N.APPNP(3, 0.1) end},
   ["sg"] = {function() return N.SGConv(4, 3, {K = 2}) end},
   ["transformer"] = {function() return N.TransformerConv(4, 3, {heads = 2}) end},
   ["transformer beta"] = {function()
      return N.TransformerConv(4, 3, {heads = 2, concat = false, beta = true, edge_dim = 3})
   end},
   ["pna"] = {function()
      return N.PNAConv(4, 6, {"mean", "min", "max", "std"}, {"identity", "amplification", "attenuation"},
         torch.tensor {1, 3, 4, 2}, {towers = 2, divide_input = true})
   end},
   ["pna edge"] = {function()
      return N.PNAConv(4, 6, {"mean", "sum"}, {"identity", "linear", "inverse_linear"}, torch.tensor {1, 3, 4, 2},
         {edge_dim = 3, pre_layers = 2, post_layers = 2})
   end},
   ["rgcn"] = {function() return N.RGCNConv(4, 3, 3) end},
   ["rgcn bases"] = {function() return N.RGCNConv(4, 3, 3, {num_bases = 2, aggr = "sum"}) end},
   ["rgcn blocks"] = {function() return N.RGCNConv(4, 6, 3, {num_blocks = 2}) end},
   ["gated"] = {function() return N.GatedGraphConv(5, 2) end},
   ["topk"] = {function() return N.TopKPooling(4, {ratio = 0.6}) end},
   ["topk min"] = {function() return N.TopKPooling(4, {min_score = 0.2}) end},
   ["sag"] = {function() return N.SAGPooling(4, {ratio = 2}) end},
   ["batch_norm"] = {function() return N.BatchNorm(4) end},
   ["graph_norm"] = {function() return N.GraphNorm(4) end},
   ["mlp"] = {function() return N.MLP {4, 5, 3} end},
   ["mlp plain"] = {function() return N.MLP({4, 5, 5, 3}, {norm = false, act = "elu", plain_last = false}) end},
   ["model gcn"] = {function() return N.GCN(4, 5, 2, 3) end},
   ["model sage"] = {function() return N.GraphSAGE(4, 5, 3, 3, {jk = "cat", norm = "batch_norm"}) end},
   ["model gin"] = {function() return N.GIN(4, 5, 2, 3, {jk = "max"}) end},
   ["model gat"] = {function() return N.GAT(4, 6, 2, 3, {heads = 2, jk = "lstm"}) end},
   ["model gatv2"] = {function() return N.GAT(4, 6, 2, {v2 = true, act = "elu"}) end},
   ["gcn max"] = {function() return N.GCNConv(4, 3, {aggr = "max"}) end},
}

-- Runs a layer with the recorded weights and inputs. Returns the results, and the inputs.
local function run(case, make)
   local module = make():eval()
   module:load_state_dict(part(case, "state"), {names = "pytorch"})
   local inputs = part(case, "in")
   for name, value in pairs(inputs) do
      if value:is_floating_point() then
         value:requires_grad_()
      else
         inputs[name] = value + 1
      end
   end
   local x = inputs.x
   if inputs.x1 then x = {inputs.x1, inputs.x2} end
   local options = {}
   for name, value in pairs(inputs) do
      if name ~= "x" and name ~= "x1" and name ~= "x2" and name ~= "edge_index" then options[name] = value end
   end
   if next(options) == nil then options = nil end
   local list = {x, inputs.edge_index}
   list[#list + 1] = options
   local results = table.pack(module(table.unpack(list)))
   return results, inputs, module
end

describe("a layer of torch.graphs.nn", function()
   for case, row in sorted(cases) do
      it("has PyTorch Geometric's results and gradients: " .. case, function()
         local results, inputs, module = run(case, row[1])
         local total, outs = 0, part(case, "out")
         for i = 1, results.n do
            local expected = outs[tostring(i - 1)]
            if expected ~= nil then
               local out = results[i]
               if expected:is_floating_point() then
                  assert.close(expected, out:detach(), 1e-5)
                  local weight = torch.linspace(-1, 1, out:numel()):view(out.shape)
                  total = total + (out * weight):sum()
               else
                  assert.same((expected + 1):tolist(), out:tolist())
               end
               outs[tostring(i - 1)] = nil
            end
         end
         assert.is_nil(next(outs))
         total:backward()
         for name, expected in pairs(part(case, "in_grad")) do
            assert.close(expected, inputs[name].grad, 1e-5)
         end
         local grads = {}
         for name, parameter in module:named_parameters() do
            -- The numbers in the paths of parameters count from 0 in PyTorch, so 1 is subtracted here.
            local path = name:gsub("%f[%d]%d+%f[.]", function(i) return tostring(math.tointeger(i) - 1) end)
            grads[path] = parameter.grad
         end
         for name, expected in pairs(part(case, "grad")) do
            assert.close(expected, grads[name], 2e-5)
         end
      end)
   end
end)

describe("layers of torch.graphs.nn", function()
   local edges = torch.tensor {{1, 2, 3, 1, 3}, {2, 3, 1, 3, 3}}

   for name, make in sorted {
      GCN = function() return N.GCNConv(3, 2) end, SAGE = function() return N.SAGEConv(3, 2) end,
      GAT = function() return N.GATConv(3, 2, {heads = 2}) end,
      Transformer = function() return N.TransformerConv(3, 2) end,
   } do
      it("have first and second derivatives: " .. name, function()
         torch.manual_seed(1)
         local conv = make():double()
         local x = torch.randn(4, 3, {dtype = "float64", requires_grad = true})
         local function fn(v) return conv(v, edges) end
         assert.is_true(torch.autograd.gradcheck(fn, {x}))
         assert.is_true(torch.autograd.gradgradcheck(fn, {x}))
      end)

      it("take graphs without edges or nodes, and name invalid arguments: " .. name, function()
         local conv, x = make(), torch.randn(4, 3)
         local none = torch.zeros(2, 0):long()
         assert.equal(0, conv(torch.zeros(0, 3), none):size(1))
         assert.equal(4, conv(x, none):size(1))
         local title = "graphs.nn." .. name .. "Conv: "
         assert.raises(title .. "edge_index: expected an int64 tensor of shape (2, edges), got a float32 tensor",
            function() conv(x, edges:float()) end)
         assert.raises(title .. "edge_index: expected positions from 1 to 4, the number of nodes, got 6",
            function() conv(x, edges + 3) end)
         assert.raises(title .. "edge_index: expected positions from 1 to 4, the number of nodes, got 0",
            function() conv(x, edges - 1) end)
         assert.raises(title .. "x: expected a floating tensor of shape (nodes, 3), got a float32 tensor of shape",
            function() conv(torch.randn(4, 5), edges) end)
      end)

      it("notice changes of edge_index: " .. name, function()
         local conv, x, changed = make(), torch.randn(4, 3), edges:clone()
         local before = conv(x, changed):detach()
         changed[1][1] = 4
         local after = conv(x, changed):detach()
         assert.is_false(before:equal(after))
         assert.is_true(after:equal(conv(x, changed:clone()):detach()))
      end)
   end

   it("send the messages that a derived class defines", function()
      local Zero = torch.class("Zero", N.GCNConv)
      function Zero:message(x_j) return x_j * 0 end
      assert.equal(0, Zero(3, 2)(torch.randn(4, 3), edges):abs():sum():item())
   end)

   it("choose the arguments of message, aggregate and update by name", function()
      local Own = torch.class("Own", N.MessagePassing)
      function Own:message(x_j, x_i, weight, edge_index_i)
         assert.same(edges[2]:tolist(), edge_index_i:tolist())
         return (x_j - x_i) * weight:view(-1, 1)
      end
      function Own:update(inputs, x) return inputs + x end
      function Own:forward(x, edge_index, weight)
         return self:propagate(edge_index, {x = x, weight = weight})
      end
      local x, weight = torch.tensor {{1.0}, {2.0}, {4.0}}, torch.tensor {1.0, 2.0, 3.0, 4.0, 5.0}
      -- 1: 1 + 3 (4 - 1); 2: 2 + (1 - 2); 3: 4 + 2 (2 - 4) + 4 (1 - 4) + 5 * 0
      assert.same({10, 1, -12}, Own()(x, edges, weight):view(-1):tolist())
      assert.raises("Own:message: weight: expected propagate to get it", function() Own()(x, edges) end)
      assert.raises('Own: aggr: expected sum, add, mean', function() Own {aggr = "middle"} end)
      for _, aggr in ipairs {"mean", "max", "min", "mul"} do
         local plain = N.MessagePassing {aggr = aggr}
         local expected = torch.graphs.utils.scatter(x:index_select(1, edges[1]), edges[2], 1, 3, aggr)
         assert.close(expected, plain:propagate(edges, {x = x}), 1e-6)
      end
   end)

   it("draw new weights for the networks that they contain", function()
      local conv = N.GINConv(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), {eps = 0.5})
      local before = conv.nn[1].weight:detach():clone()
      conv:reset_parameters()
      assert.is_false(conv.nn[1].weight:equal(before))
   end)

   it("take the widths of an MLP as a list or as options", function()
      local options = {in_channels = 4, hidden_channels = 8, out_channels = 2, num_layers = 3}
      assert.same({4, 8, 8, 2}, N.MLP(options).channel_list)
      assert.same({4, 2}, N.MLP(4, {out_channels = 2, num_layers = 1}).channel_list)
      assert.raises("MLP: hidden_channels: expected an integer of at least 1, in place of channel_list, got nil",
         function() N.MLP {in_channels = 4, out_channels = 2, num_layers = 2} end)
      assert.raises("graphs.nn.MLP: num_layers: expected an integer of at least 1", function() N.MLP() end)
   end)

   it("pool graphs whose batch vector is not sorted", function()
      local x, batch = torch.tensor {{1.0}, {2.0}, {4.0}}, torch.tensor {3, 1, 3}
      assert.same({2, 0, 5}, N.global_add_pool(x, batch):view(-1):tolist())
      assert.same({2, 0, 2.5}, N.global_mean_pool(x, batch):view(-1):tolist())
      assert.same({2, 0, 4}, N.global_max_pool(x, batch):view(-1):tolist())
      assert.same({7}, N.global_add_pool(x):view(-1):tolist())
      assert.raises("graphs.nn.global_add_pool: batch: expected numbers of graphs from 1 on, got 0",
         function() N.global_add_pool(x, batch - 1) end)
      assert.raises("graphs.nn.global_add_pool: batch: expected 3 positions, one for each node",
         function() N.global_add_pool(x, batch[{{1, 2}}]) end)
   end)
end)
