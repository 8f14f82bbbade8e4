# reference.py - saves tiny models of transformers with their outputs, for compare.lua:
#
#    python rocks/text/spec/reference.py FOLDER [NAME ...]
#
# Each model is a folder with config.json, model.safetensors and reference.safetensors: inputs (numbers count from 0),
# logits with and without padding, the loss, its gradients, and tokens of greedy and beam search.
import os, sys, warnings
sys.modules["torchaudio"] = None  # not needed, and may not fit PyTorch
warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch, transformers as t
t.logging.disable_progress_bar()
from safetensors.torch import load_file, save_file

base = dict(vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=32, bos_token_id=1, eos_token_id=2, pad_token_id=0)
gqa = dict(base, num_key_value_heads=2)
enc = dict(base, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, hidden_act="gelu")
rope = lambda **k: dict(gqa, rope_parameters=k)
gpt2 = dict(vocab_size=37, n_positions=32, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=1, eos_token_id=2, pad_token_id=0)
t5 = dict(vocab_size=37, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=4, dropout_rate=0.0,
          relative_attention_num_buckets=8, relative_attention_max_distance=12, decoder_start_token_id=0,
          pad_token_id=0, eos_token_id=2)
bart = dict(vocab_size=37, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=32, dropout=0.0,
            attention_dropout=0.0, activation_dropout=0.0, classifier_dropout=0.0, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2)
vit = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, image_size=8, patch_size=4,
           hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
clip_t = dict(vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=16, projection_dim=8, bos_token_id=1, eos_token_id=36, pad_token_id=0)
clip_v = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, image_size=8,
              patch_size=4, projection_dim=8)
deb = dict(enc, relative_attention=True, max_relative_positions=-1, position_biased_input=False, type_vocab_size=0,
           pos_att_type=["p2c", "c2p"])

C = {}  # name -> (class of the model, class of the configuration, options)
def case(name, model, config, **options): C[name] = (model, config, options)

case("gpt2", "GPT2LMHeadModel", "GPT2Config", **gpt2)
case("gpt2_scaled", "GPT2LMHeadModel", "GPT2Config", **dict(gpt2, scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False, activation_function="relu"))
case("gpt2_classes", "GPT2ForSequenceClassification", "GPT2Config", **dict(gpt2, num_labels=3))
case("llama2", "LlamaForCausalLM", "LlamaConfig", **gqa)
case("llama3", "LlamaForCausalLM", "LlamaConfig", **rope(rope_type="llama3", rope_theta=50.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8))
case("llama_linear", "LlamaForCausalLM", "LlamaConfig", **rope(rope_type="linear", rope_theta=100.0, factor=2.5))
case("llama_dynamic", "LlamaForCausalLM", "LlamaConfig", **dict(rope(rope_type="dynamic", rope_theta=100.0, factor=2.0), max_position_embeddings=5))
case("llama_yarn", "LlamaForCausalLM", "LlamaConfig", **rope(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=8))
case("llama_bias", "LlamaForCausalLM", "LlamaConfig", **dict(gqa, attention_bias=True, mlp_bias=True, head_dim=6, tie_word_embeddings=True))
case("llama_classes", "LlamaForSequenceClassification", "LlamaConfig", **dict(gqa, num_labels=3))
case("mistral", "MistralForCausalLM", "MistralConfig", **dict(gqa, sliding_window=4))
case("qwen2", "Qwen2ForCausalLM", "Qwen2Config", **gqa)
case("qwen2_sliding", "Qwen2ForCausalLM", "Qwen2Config", **dict(gqa, use_sliding_window=True, sliding_window=3, max_window_layers=1))
case("qwen3", "Qwen3ForCausalLM", "Qwen3Config", **dict(gqa, head_dim=8, tie_word_embeddings=True))
case("bert", "BertForMaskedLM", "BertConfig", **enc)
case("bert_classes", "BertForSequenceClassification", "BertConfig", **dict(enc, num_labels=3))
case("bert_tokens", "BertForTokenClassification", "BertConfig", **dict(enc, num_labels=3))
case("bert_answers", "BertForQuestionAnswering", "BertConfig", **enc)
case("roberta", "RobertaForMaskedLM", "RobertaConfig", **dict(enc, pad_token_id=0, type_vocab_size=1))
case("roberta_classes", "RobertaForSequenceClassification", "RobertaConfig", **dict(enc, type_vocab_size=1, num_labels=3))
case("distilbert", "DistilBertForMaskedLM", "DistilBertConfig", vocab_size=37, dim=16, hidden_dim=24, n_layers=2, n_heads=4, max_position_embeddings=32, dropout=0.0, attention_dropout=0.0, pad_token_id=0)
case("distilbert_classes", "DistilBertForSequenceClassification", "DistilBertConfig", vocab_size=37, dim=16, hidden_dim=24, n_layers=2, n_heads=4, max_position_embeddings=32, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, pad_token_id=0, num_labels=3)
case("mixtral", "MixtralForCausalLM", "MixtralConfig", **dict(gqa, num_local_experts=4, num_experts_per_tok=2, sliding_window=None))
case("gemma", "GemmaForCausalLM", "GemmaConfig", **dict(gqa, head_dim=8))
case("gemma2", "Gemma2ForCausalLM", "Gemma2Config", **dict(gqa, head_dim=8, sliding_window=4, query_pre_attn_scalar=6, final_logit_softcapping=3.0, attn_logit_softcapping=2.0))
case("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", **dict(gqa, head_dim=8, sliding_window=4, query_pre_attn_scalar=6, layer_types=["sliding_attention", "full_attention"]))
case("phi3", "Phi3ForCausalLM", "Phi3Config", **dict(gqa, resid_pdrop=0.0, embd_pdrop=0.0))
case("phi3_longrope", "Phi3ForCausalLM", "Phi3Config", **dict(gqa, original_max_position_embeddings=5, max_position_embeddings=40, rope_parameters=dict(rope_type="longrope", rope_theta=100.0, short_factor=[1.1, 1.3], long_factor=[2.0, 5.0], original_max_position_embeddings=5)))
case("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", **dict(base, rotary_pct=0.5, hidden_dropout=0.0, attention_dropout=0.0))
case("gpt_neox_serial", "GPTNeoXForCausalLM", "GPTNeoXConfig", **dict(base, rotary_pct=1.0, use_parallel_residual=False, hidden_dropout=0.0, attention_dropout=0.0))
case("olmo", "OlmoForCausalLM", "OlmoConfig", **dict(gqa, clip_qkv=1.5))
case("olmo2", "Olmo2ForCausalLM", "Olmo2Config", **gqa)
case("electra", "ElectraForMaskedLM", "ElectraConfig", **dict(enc, embedding_size=8))
case("electra_disc", "ElectraForPreTraining", "ElectraConfig", **dict(enc, embedding_size=8))
case("albert", "AlbertForMaskedLM", "AlbertConfig", **dict(enc, embedding_size=8, num_hidden_groups=1, inner_group_num=1))
case("albert_classes", "AlbertForSequenceClassification", "AlbertConfig", **dict(enc, embedding_size=8, num_labels=3, classifier_dropout_prob=0.0))
case("deberta", "DebertaForMaskedLM", "DebertaConfig", **dict(deb))
case("deberta_v2", "DebertaV2ForMaskedLM", "DebertaV2Config", **dict(deb, share_att_key=True, position_buckets=4, norm_rel_ebd="layer_norm", legacy=True))
case("deberta_v2_classes", "DebertaV2ForSequenceClassification", "DebertaV2Config", **dict(deb, share_att_key=True, position_buckets=4, norm_rel_ebd="layer_norm", num_labels=3, pooler_dropout=0.0))
case("t5", "T5ForConditionalGeneration", "T5Config", **t5)
case("t5_gated", "T5ForConditionalGeneration", "T5Config", **dict(t5, feed_forward_proj="gated-gelu", tie_word_embeddings=False))
case("bart", "BartForConditionalGeneration", "BartConfig", **bart)
case("vit", "ViTForImageClassification", "ViTConfig", **dict(vit, num_labels=3))
case("clip", "CLIPModel", "CLIPConfig", text_config=clip_t, vision_config=clip_v, projection_dim=8)
case("siglip", "SiglipModel", "SiglipConfig", text_config=dict(clip_t, projection_size=16), vision_config=clip_v)

def build(name, seed=0, scale=0.25):
    model, config, options = C[name]
    config = getattr(t, config)(**options)
    torch.manual_seed(seed)
    model = getattr(t, model)(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() == 1 and "weight" in key and ("norm" in key.lower() or "ln_" in key): p.copy_(1 + 0.1 * torch.randn_like(p))
            else: p.copy_(scale * torch.randn_like(p))
    if getattr(model, "generation_config", None): model.generation_config.max_length = None
    return model, config

def inputs(name, model, config):
    g = torch.Generator().manual_seed(1)
    kind = type(model).__name__
    if "Image" in kind: return dict(pixel_values=torch.randn(2, 3, 8, 8, generator=g)), None
    ids = torch.randint(3, 36, (2, 9), generator=g)
    mask = torch.ones_like(ids)
    if "CausalLM" in kind or "LMHead" in kind: mask[0, :3] = 0
    else: mask[0, -3:] = 0
    return dict(input_ids=ids), mask

def labels_for(kind, ids, mask):
    if "SequenceClass" in kind: return dict(labels=torch.tensor([2, 0]))
    if "TokenClass" in kind: return dict(labels=torch.where(mask > 0, ids % 3, -100))
    if "PreTraining" in kind: return dict(labels=(ids % 2).float())
    if "QuestionAnswering" in kind: return dict(start_positions=torch.tensor([1, 3]), end_positions=torch.tensor([2, 8]))
    if "Conditional" in kind: return dict(labels=ids.flip(0)[:, :6].contiguous())
    keep = (mask > 0) & (mask.roll(1, 1) > 0) if "CausalLM" in kind or "LMHead" in kind else mask > 0
    return dict(labels=torch.where(keep, ids, -100))  # padding must not predict a token

# Returns a dictionary from the bytes of each parameter to its name in the file.
def names_in_file(path):
    return {value.numpy().tobytes(): key for key, value in load_file(path + "/model.safetensors").items()}

def reference(name, folder):
    model, config = build(name)
    kind = type(model).__name__
    path = f"{folder}/{name}"
    model.save_pretrained(path)
    given, mask = inputs(name, model, config)
    out = dict(given)
    def note(prefix, r):
        for k in ("logits", "start_logits", "end_logits", "logits_per_image", "image_embeds", "text_embeds"):
            if getattr(r, k, None) is not None: out[f"{prefix}.{k}"] = getattr(r, k).detach().clone()
    if mask is None: labels = dict(labels=torch.tensor([2, 0]))
    elif "CLIP" in kind or "Siglip" in kind:
        given["pixel_values"] = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(2))
        given["input_ids"][:, -4] = 36
        out.update(given)
        labels = dict(return_loss=True)
    else:
        labels = labels_for(kind, given["input_ids"], mask)
    if mask is not None: out["mask"] = mask
    extra = {"decoder_input_ids": given["input_ids"].flip(0)[:, :6].contiguous()} if "Conditional" in kind else {}
    with torch.no_grad():
        note("plain", model(**given, **extra))
        if mask is not None: note("masked", model(**given, **extra, attention_mask=mask))
    full = dict(given, **labels)
    if mask is not None: full["attention_mask"] = mask
    r = model(**full)
    r.loss.backward()
    out["loss"] = r.loss.detach()
    for k, v in labels.items():
        if torch.is_tensor(v): out[k] = v
    names = names_in_file(path)
    for key, p in model.named_parameters():
        if p.grad is None: continue
        if name == "mixtral" and key.endswith("gate_up_proj"):
            b = key.replace("mlp.experts.gate_up_proj", "block_sparse_moe.experts.")
            for e in range(p.shape[0]):
                out[f"grad.{b}{e}.w1.weight"], out[f"grad.{b}{e}.w3.weight"] = p.grad[e].chunk(2)
        elif name == "mixtral" and key.endswith("down_proj"):
            b = key.replace("mlp.experts.down_proj", "block_sparse_moe.experts.")
            for e in range(p.shape[0]): out[f"grad.{b}{e}.w2.weight"] = p.grad[e]
        else: out["grad." + names[p.detach().numpy().tobytes()]] = p.grad
    if "CausalLM" in kind or "LMHead" in kind or "Conditional" in kind:
        common = dict(**given, attention_mask=mask, max_new_tokens=10, pad_token_id=36)
        import copy
        generate = lambda **k: copy.deepcopy(model).generate(**common, do_sample=False, **k)  # rotary embeddings have a state that a call changes
        out["greedy"] = generate()
        out["beam"] = generate(num_beams=3)
        out["beam_penalty"] = generate(num_beams=4, num_return_sequences=2, length_penalty=2.0, early_stopping=True, no_repeat_ngram_size=2)
        out["penalty"] = generate(repetition_penalty=1.5, no_repeat_ngram_size=3, min_new_tokens=4)
    save_file({k: v.contiguous().clone() for k, v in out.items()}, f"{path}/reference.safetensors")

if __name__ == "__main__":
    for name in sys.argv[2:] or list(C):
        try:
            reference(name, sys.argv[1])
            print(name, "ok", flush=True)
        except Exception as e:
            import traceback
            print(name, "FAILED", repr(e)[:300], traceback.format_exc()[-300:], flush=True)
