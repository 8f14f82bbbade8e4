-- Converts labels to rows with a single 1.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

F {"one_hot(Tensor self, int num_classes=-1) -> Tensor",
   doc = [[Adds a last dimension of num_classes positions with 1 at the class that self holds, else
   0, as int64. With num_classes = -1 the largest class sets the size.]],
   also = true, method = false, composite = true, nondiff = "integers",
   waits = "without num_classes the largest class is read", examples = {"I(4, 3)", "I(4, 2, 3), 5"}}
example("one_hot", [=[
   print(torch.nn.functional.one_hot(torch.tensor {1, 3}, 3)) -- labels from 1
   --> tensor([[1, 0, 0],
   -->         [0, 0, 1]])]=])
