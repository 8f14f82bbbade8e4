-- The loss of connectionist temporal classification.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

local reduced = "string reduction='mean'"

local lengths = {targets = true, input_lengths = true, target_lengths = true}
for _, row in ipairs {{"ctc_loss", "Tensor"}, {"ctc_loss.lists", "int[]"}} do
   F {row[1] .. "(Tensor log_probs, Tensor targets, " .. row[2] .. " input_lengths, "
         .. row[2] .. " target_lengths, index blank=0, " .. reduced
         .. ", bool zero_infinity=false) -> Tensor",
      doc = [[Connectionist temporal classification: -log of the probability that sequences of
      log_probs (T, N, C), or (T, C), say the labels in targets (N, S), or one after the other in
      one dimension. Lengths are tensors or lists; blank is the class between labels. The mean is of
      each loss divided by its number of labels; zero_infinity makes losses of sequences that are
      too short 0. As in PyTorch the gradient is that of the logits from which log_softmax made
      log_probs.]],
      also = true, composite = true, gradcheck = false, any_device = lengths,
      autocast = {cpu = "float32"},
      waits = "labels and lengths are checked on the host",
      examples = {row[2] == "Tensor"
         and "T(5, 2, 4):log_softmax(3), I(3, 2, 2) + 1, torch.tensor{5, 4}, torch.tensor{2, 1}"
         or "T(5, 4):log_softmax(2), I(3, 2) + 1, {5}, {2}, 1, 'sum'"}}
end
op {[[ctc_core(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths,
      int blank, bool zero_infinity) -> (Tensor loss, Tensor alpha)]],
    name = "ctc_loss", internal = true, nograd = {alpha = true},
    grad = {log_probs = [[ctc_core_backward(grad_loss, log_probs, targets, input_lengths,
    target_lengths, blank, zero_infinity, loss, alpha)]]}}
op {[[ctc_core_backward(Tensor grad_output, Tensor log_probs, Tensor targets, Tensor input_lengths,
      Tensor target_lengths, int blank, bool zero_infinity, Tensor loss, Tensor alpha) -> Tensor]],
    internal = true,
    composite = true}
