-- tensor.lua - defines an attention block, and the device mesh of the ranks.

nn, F = torch.nn, torch.nn.functional
tensor = dist.tensor
tp = tensor.parallel
Shard, Replicate = tensor.Shard, tensor.Replicate
mesh = dist.init_device_mesh("cpu", {size}, {mesh_dim_names = {"tp"}})
Block = torch.class("Block", nn.Module)

function Block:__init(w, heads)
   nn.Module.__init(self)
   self.heads, self.width = heads, w
   self.ln_1, self.ln_2 = nn.LayerNorm(w), nn.LayerNorm(w)
   self.q, self.k, self.v = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
   self.o = nn.Linear(w, w)
   self.mlp = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w))
end

function Block:attend(t)
   local function split(u) return u:view(u:size(1), u:size(2), -1, self.width // self.heads):transpose(2, 3) end
   local u = F.scaled_dot_product_attention(split(self.q(t)), split(self.k(t)), split(self.v(t)), {is_causal = true})
   return self.o(u:transpose(2, 3):flatten(3))
end

function Block:forward(t)
   t = t + self:attend(self.ln_1(t))
   return t + self.mlp(self.ln_2(t))
end

function model_of(class)
   torch.manual_seed(4)
   return class(16, 4)
end
