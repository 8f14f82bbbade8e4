local torch = require "tlua"
local nn = torch.nn

local function model() return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1))) end

-- The names that PyTorch gives to the tensors of the same model.
local pytorch = {"0.bias", "0.weight", "2.0.bias", "2.0.weight"}

local function sorted_names(state)
   local names = {}
   for name in pairs(state) do names[#names + 1] = name end
   table.sort(names)
   return names
end

describe("load_state_dict with assign", function()
   it("puts the state's tensors in place, with their dtype, and copies nothing", function()
      local from, to = nn.BatchNorm1d(2):double(), nn.BatchNorm1d(2)
      to.weight:requires_grad_(false)
      local state = from:state_dict()
      to:load_state_dict(state, {assign = true})
      assert.equal("float64", to.weight.dtype)
      assert.equal("float64", to.running_mean.dtype)
      assert.equal(state.weight:data_ptr(), to.weight:data_ptr())
      assert.equal(state.running_mean:data_ptr(), to.running_mean:data_ptr())
      assert.is_true(to.weight.is_parameter and to.bias.is_parameter)
      assert.is_false(to.weight.requires_grad)
      assert.is_true(to.bias.requires_grad)
      assert.equal(5, (function() local n = 0 for _ in pairs(to:state_dict()) do n = n + 1 end
         return n end)())
   end)

   it("keeps tied parameters tied, and refuses tensors that do not fit", function()
      local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
      net[2].weight = net[1].weight
      net:load_state_dict(net:clone():state_dict(), {assign = true})
      assert.is_true(net[1].weight == net[2].weight)
      assert.equal(3, #net:parameters())
      assert.raises("of another shape",
         function() nn.Linear(2, 3):load_state_dict(nn.Linear(2, 2):state_dict(), {assign = true}) end)
      assert.raises("load_state_dict: unknown option asign; did you mean assign?",
         function() nn.Linear(2, 2):load_state_dict(nn.Linear(2, 2):state_dict(), {asign = true}) end)
   end)
end)

describe("a state with PyTorch's names", function()
   it("counts positions from 0, both ways", function()
      local a, b = model(), model()
      local state = a:state_dict {names = "pytorch"}
      assert.same(pytorch, sorted_names(state))
      b:load_state_dict(state, {names = "pytorch"})
      local x = torch.randn(4, 2)
      assert.is_true(torch.equal(a(x), b(x)))
      assert.same(pytorch, sorted_names(b:state_dict {names = "pytorch"}))
   end)

   it("goes through a file", function()
      local path = os.tmpname() .. ".safetensors"
      local a, b = model(), model()
      torch.save(a:state_dict {names = "pytorch"}, path)
      b:load_state_dict(torch.load(path), {names = "pytorch"})
      os.remove(path)
      assert.is_true(torch.equal(a[3][1].weight, b[3][1].weight))
   end)

   it("leaves names that are no positions as they are", function()
      local dict = nn.ModuleDict {["1"] = nn.Linear(1, 1)}
      assert.same({"1.bias", "1.weight"}, sorted_names(dict:state_dict {names = "pytorch"}))
      local rnn = nn.RNN(1, 1, {bias = false})
      assert.same({"weight_hh_l0", "weight_ih_l0"}, sorted_names(rnn:state_dict {names = "pytorch"}))
      local attention = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0), 1)
      assert.is_not_nil(attention:state_dict({names = "pytorch"})["layers.0.self_attn.in_proj_bias"])
   end)

   it("is suggested by the error if the option is missing or superfluous", function()
      local a = model()
      assert.raises('its positions seem to count from 0: try {names = "pytorch"}',
         function() a:load_state_dict(a:state_dict {names = "pytorch"}) end)
      assert.raises('its positions seem to count from 1: try it without names = "pytorch"',
         function() a:load_state_dict(a:state_dict(), {names = "pytorch"}) end)
   end)

   it("is the only other one", function()
      local a = model()
      assert.raises('state_dict: names: expected "pytorch" or nil, got "torch"',
         function() a:state_dict {names = "torch"} end)
      assert.raises("load_state_dict: unknown option name; did you mean names?",
         function() a:load_state_dict({}, {name = "pytorch"}) end)
      assert.raises("state_dict: unknown option prefx; did you mean prefix?",
         function() a:state_dict {prefx = "x"} end)
   end)
end)

describe("a state without counts of batches", function()
   it("is accepted, as files of PyTorch's earlier versions have none", function()
      local norm, new = nn.BatchNorm1d(2), {weight = torch.ones(2) * 3, bias = torch.ones(2)}
      norm:train()
      norm(torch.ones(3, 2))
      new.running_mean, new.running_var = torch.zeros(2), torch.ones(2)
      assert.same({{}, {}}, {norm:load_state_dict(new)})
      assert.same({1, 3}, {norm.num_batches_tracked:item(), norm.weight[1]:item()})
      new.running_var = nil
      assert.raises("missing: running_var", function() norm:load_state_dict(new) end)
      local own = nn.Module()
      own:register_buffer("own_num_batches_tracked", torch.zeros(1))
      assert.raises("missing: own_num_batches_tracked", function() own:load_state_dict {} end)
   end)
end)
