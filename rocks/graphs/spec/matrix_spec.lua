-- Tests layers that are called with a sparse matrix in place of edge_index. fixtures/matrix.py has recorded PyTorch
-- Geometric's results.

local torch = require "tlua"
local graphs = require "tlua.graphs"
local nn = torch.nn

local fixture = torch.load "rocks/graphs/spec/fixtures/matrix.safetensors"

local function graph()
   return graphs.data.Data {x = fixture.x, edge_index = fixture.edge_index, edge_weight = fixture.edge_weight,
      edge_id = torch.arange(0, 40)}
end

describe("ToSparseTensor", function()
   it("makes PyTorch Geometric's matrix, and puts attributes of edges in its order", function()
      local data = graphs.transforms.ToSparseTensor()(graph())
      assert.equal("sparse_csr", data.adj_t.layout)
      assert.same({12, 12}, {table.unpack(data.adj_t.shape)})
      assert.is_true(data.adj_t:crow_indices():equal(fixture.crow))
      assert.is_true(data.adj_t:col_indices():equal(fixture.col))
      assert.is_true(data.adj_t:values():equal(fixture.values))
      assert.is_true(data.edge_id:equal(fixture.edge_id))
      assert.is_nil(data:get "edge_index")
      assert.is_nil(data:get "edge_weight")
      assert.equal(12, data.num_nodes)
   end)

   it("keeps edge_index, in the matrix's order, and leaves the graph as it was", function()
      local before = graph()
      local data = graphs.transforms.ToSparseTensor({remove_edge_index = false})(before)
      assert.is_true(before.edge_index:equal(fixture.edge_index))
      assert.is_nil(before:get "adj_t")
      assert.is_true(data.edge_index[1]:equal(fixture.col))
      assert.is_true(data.edge_weight:equal(fixture.values))
   end)

   it("makes values of 1 without weights, and rows without elements", function()
      local data = graphs.transforms.ToSparseTensor()(graphs.data.Data {x = torch.ones(3, 1),
         edge_index = torch.zeros({2, 0}, {dtype = "int64"})})
      assert.same({1, 1, 1, 1}, data.adj_t:crow_indices():tolist())
      local layer = graphs.nn.SAGEConv(1, 1, {root_weight = false, bias = false})
      assert.same({{0}, {0}, {0}}, layer(data.x, data.adj_t):tolist())
   end)

   it("refuses anything but a graph with edges, and weights of a wrong shape", function()
      local transform = graphs.transforms.ToSparseTensor()
      assert.raises("ToSparseTensor: data: expected a graph with edge_index, got 3", function() transform(3) end)
      assert.raises("ToSparseTensor: data: expected a graph with edge_index", function()
         transform(graphs.data.Data {x = torch.ones(2, 1)})
      end)
      local data = graph()
      data.edge_weight = torch.ones(40, 2)
      assert.raises("edge_weight: expected a tensor of one dimension", function() transform(data) end)
   end)
end)

describe("a layer with a sparse matrix", function()
   local layers = {
      GCNConv = function() return graphs.nn.GCNConv(6, 4) end,
      SAGEConv = function() return graphs.nn.SAGEConv(6, 4) end,
      GraphConv = function() return graphs.nn.GraphConv(6, 4) end,
      SGConv = function() return graphs.nn.SGConv(6, 4, {K = 2}) end,
      GATConv = function() return graphs.nn.GATConv(6, 4) end,
      GATv2Conv = function() return graphs.nn.GATv2Conv(6, 4) end,
      TransformerConv = function() return graphs.nn.TransformerConv(6, 4) end,
      GINConv = function() return graphs.nn.GINConv(nn.Linear(6, 4)) end,
      APPNP = function() return graphs.nn.APPNP(3, 0.1) end,
      GatedGraphConv = function() return graphs.nn.GatedGraphConv(6, 2) end,
   }
   for name, make in pairs(layers) do
      it("gives PyTorch Geometric's results: " .. name, function()
         local layer, state = make(), {}
         for key, value in pairs(fixture) do
            local own = key:match("^" .. name .. "%.(.+)$")
            if own then state[own] = value end
         end
         layer:load_state_dict(state)
         layer:eval()
         local data = graphs.transforms.ToSparseTensor()(graph())
         for _, adj_t in ipairs {data.adj_t, data.adj_t:to_sparse()} do
            assert.is_true(torch.allclose(layer(fixture.x, adj_t), fixture[name], {atol = 1e-5}))
         end
      end)
   end

   it("follows changes of the values, and gives them gradients", function()
      local data = graphs.transforms.ToSparseTensor()(graph())
      local layer = graphs.nn.GraphConv(6, 4)
      local before = layer(fixture.x, data.adj_t)
      data.adj_t:values():mul_(2)
      local after = layer(fixture.x, data.adj_t)
      assert.is_false(before:equal(after))
      local weight = (fixture.values * 2):requires_grad_()
      local edges = torch.stack {fixture.col, data.adj_t:to_sparse():indices()[1]}
      local expected = layer(fixture.x, edges, weight)
      assert.is_true(torch.allclose(after, expected, {atol = 1e-6}))
   end)

   it("works in layers of the user's own, and refuses matrices of another shape", function()
      local Sum = torch.class("Sum", graphs.nn.MessagePassing)
      function Sum:forward(x, edge_index) return self:propagate(edge_index, {x = x}) end
      function Sum:message(x_j, edge_weight) return edge_weight and x_j * edge_weight:view(-1, 1) or x_j end
      local data = graphs.transforms.ToSparseTensor()(graph())
      assert.is_true(torch.allclose(Sum()(fixture.x, data.adj_t), data.adj_t:to_dense():mm(fixture.x), {atol = 1e-5}))
      local wide = torch.sparse_coo_tensor(torch.tensor {{1}, {13}}, torch.ones(1), {12, 13})
      assert.raises("edge_index: expected positions from 1 to 12, the number of nodes, got 13", function()
         graphs.nn.GCNConv(6, 4)(fixture.x, wide)
      end)
   end)
end)
