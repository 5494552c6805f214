"""The words of the atlas: what stands on the map, in English, Vietnamese and Chinese. Read them through `atlas`.

A name in braces is a number that `atlas.numbers` derives from a `Config`, so no width or count is typed here.
"""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """One text in the three languages of the map."""

    en: str
    vi: str
    zh: str


def same(text: str) -> Words:
    """A text that is the same in all three, such as a name or a formula."""
    return Words(text, text, text)


COLUMNS = {
    1: same("Input, Engram & mHC"),
    2: same("CED {encoder}+{decoder} & CSA2"),
    3: same("MLA & FP4 KV ({total} B)"),
    4: same("FP4 MoE & DSpark"),
}

# label: (short name, name, what stands on the button, purpose)
BLOCKS = {
    "1A": (
        Words("Input", "Đầu vào", "输入"), Words("Input and streams", "Đầu vào và các luồng", "输入与残差流"), same("{S} × {D:,}"),
        Words("Every token id becomes one row of the embedding table. The row is copied into {S} equal residual streams.",
              "Mỗi id token thành một hàng của bảng nhúng. Hàng đó được chép thành {S} luồng phần dư giống nhau.",
              "每个词元 id 取出嵌入表的一行，再复制成 {S} 条相同的残差流。"),
    ),
    "1B": (
        same("Engram"), Words("Engram memory", "Bộ nhớ Engram", "Engram 记忆"),
        Words("{engram_rows} rows / token", "{engram_rows} hàng / token", "每词元 {engram_rows} 行"),
        Words("The last 2 to {ngram} tokens are hashed to rows of large tables. A gate decides how much of the rows each stream takes.",
              "2 đến {ngram} token gần nhất được băm thành chỉ số hàng của các bảng lớn. Một cổng quyết định mỗi luồng nhận bao nhiêu.",
              "最近的 2 到 {ngram} 个词元经哈希定位到大表中的行；门控决定每条流吸收多少。"),
    ),
    "2A": (
        same("mHC"), Words("Stream mixing (mHC)", "Trộn luồng (mHC)", "残差流混合（mHC）"),
        Words("{coefficients} numbers / site", "{coefficients} hệ số / vị trí", "每处 {coefficients} 个系数"),
        Words("Before each sublayer the {S} streams collapse into one input; afterwards the result is written back and the streams mix. "
              "Each new stream is a weighted average of the old ones, so mixing cannot blow the signal up.",
              "Trước mỗi lớp con, {S} luồng gộp thành một đầu vào; sau đó kết quả được ghi lại và các luồng trộn với nhau. "
              "Mỗi luồng mới là trung bình có trọng số của các luồng cũ, nên phép trộn không làm tín hiệu phình ra.",
              "每个子层之前，{S} 条流合并成一个输入；之后写回结果并混合各流。每条新流都是旧流的加权平均，混合不会放大信号。"),
    ),
    "3A": (
        same("CED"), Words("Causal encoder and decoder", "Mã hoá–giải mã nhân quả", "因果编码器与解码器"),
        Words("{encoder} + {decoder} layers", "{encoder} + {decoder} lớp", "{encoder} + {decoder} 层"),
        Words("The first {encoder} layers see every token. The last {decoder} read rows made from their output, so a prompt needs them "
              "only for its last {window} tokens.",
              "{encoder} lớp đầu thấy mọi token. {decoder} lớp sau đọc các hàng tạo từ đầu ra đó, nên prompt chỉ cần chúng cho "
              "{window} token cuối.",
              "前 {encoder} 层处理每个词元；后 {decoder} 层读取由其输出生成的行，因此提示词只需让最后 {window} 个词元经过它们。"),
    ),
    "3B": (
        same("CSA2"), Words("CSA2 compressor", "Bộ nén CSA2", "CSA2 压缩器"),
        Words("{stores} layers store", "{stores} lớp lưu", "{stores} 层存储"),
        Words("Layers {pair_sources} pool two tokens into one latent, layer {single_source} makes one per token. {window_only} layers "
              "use their window alone; the others borrow what these {stores} made.",
              "Lớp {pair_sources} gộp hai token thành một vectơ tiềm ẩn, lớp {single_source} tạo một vectơ cho mỗi token. "
              "{window_only} lớp chỉ dùng cửa sổ; các lớp còn lại mượn của {stores} lớp này.",
              "第 {pair_sources} 层把两个词元合成一个潜在向量，第 {single_source} 层每词元一个；{window_only} 层只用窗口，其余各层借用这 {stores} 层的结果。"),
    ),
    "3C": (
        Words("Indexer", "Bộ chọn", "索引器"), Words("Indexer and candidates", "Bộ chọn và tập ứng viên", "索引器与候选集"),
        same("Top {topk}"),
        Words("Small keys score every visible entry for each query; the best {topk} are read. Layer {single_source} also keeps a pool "
              "of {pool:,} candidates for the layers after it.",
              "Các khoá nhỏ chấm điểm mọi entry thấy được cho từng truy vấn; chỉ {topk} entry tốt nhất được đọc. Lớp {single_source} "
              "còn giữ {pool:,} ứng viên cho các lớp sau.",
              "用小巧的索引键为每个查询给所有可见条目打分，只读最好的 {topk} 条。第 {single_source} 层还为后续层保留 {pool:,} 个候选。"),
    ),
    "4A": (
        same("MLA"), Words("Attention core", "Lõi chú ý", "注意力核心"), Words("≤ {keys} keys", "≤ {keys} khoá", "≤ {keys} 个键"),
        Words("{H} query heads share one latent of {C} numbers that is key and value at once. A query meets its window of {window} "
              "tokens and the {topk} chosen entries.",
              "{H} đầu truy vấn dùng chung một vectơ tiềm ẩn {C} số, vừa là khoá vừa là giá trị. Mỗi truy vấn gặp cửa sổ {window} token "
              "và {topk} entry được chọn.",
              "{H} 个查询头共用一个 {C} 维潜在向量，它既是键也是值。每个查询看到 {window} 个词元的窗口和选中的 {topk} 条条目。"),
    ),
    "6A": (
        Words("Cache", "Cache", "缓存"), Words("FP4 KV cache", "Cache KV FP4", "FP4 KV 缓存"), Words("{total} B / token", "{total} B / token", "{total} B / 词元"),
        Words("Owns every byte that outlives a token: 4-bit entries and index keys of {stores} layers, which grow with the conversation, "
              "and a window ring in every layer, which does not.",
              "Giữ mọi byte tồn tại sau khi token đi qua: entry và khoá chỉ mục 4 bit của {stores} lớp, lớn dần theo hội thoại, "
              "và một vòng cửa sổ ở mỗi lớp, không lớn thêm.",
              "保管词元过后仍存在的每个字节：{stores} 层的 4 位条目与索引键随对话增长，每层的窗口环则不增长。"),
    ),
    "5A": (
        same("MoE"), Words("Mixture of experts", "Hỗn hợp chuyên gia", "混合专家"),
        Words("{chosen} of {experts}", "{chosen} trong {experts}", "{experts} 选 {chosen}"),
        Words("A router sends each token to {chosen} of {experts} experts and to one shared expert. Expert weights are stored in 4 bits.",
              "Bộ định tuyến gửi mỗi token tới {chosen} trong {experts} chuyên gia và một chuyên gia dùng chung. Trọng số chuyên gia lưu "
              "ở 4 bit.",
              "路由器把每个词元送到 {experts} 个专家中的 {chosen} 个以及一个共享专家；专家权重以 4 位存储。"),
    ),
    "6B": (
        same("DSpark"), Words("Head and drafter", "Đầu ra và bộ sinh nháp", "输出头与草稿模型"),
        Words("{drafts} drafts", "{drafts} token nháp", "{drafts} 个草稿"),
        Words("The head turns the last streams into one score per vocabulary entry. {draft_layers} small blocks guess {drafts} tokens "
              "ahead, and the model checks all of them in one pass.",
              "Đầu ra biến các luồng cuối thành một điểm cho mỗi từ trong từ vựng. {draft_layers} khối nhỏ đoán trước {drafts} token, và "
              "mô hình kiểm tra tất cả trong một lượt.",
              "输出头把最后的残差流变成词表上的分数。{draft_layers} 个小块向前猜 {drafts} 个词元，模型一趟全部验证。"),
    ),
}

# label: ((what, value), …)
FACTS = {
    "1A": ((Words("vocabulary", "từ vựng", "词表"), "{V:,}"),
           (Words("embedding table, BF16", "bảng nhúng, BF16", "嵌入表，BF16"), "{embedding_bytes:,} B")),
    "1B": ((Words("before layers", "trước các lớp", "位于这些层之前"), "{engram_layers}"),
           (Words("rows in the tables", "số hàng trong các bảng", "表的总行数"), "{engram_table:,}"),
           (Words("read per token", "đọc mỗi token", "每词元读取"), "{engram_rows} × {engram_row} B = {engram_bytes:,} B")),
    "2A": ((Words("sites", "số vị trí", "混合处"), "2 × {L} = {sites}"),
           (Words("Sinkhorn rounds", "số vòng Sinkhorn", "Sinkhorn 轮数"), "{sinkhorn}"),
           (Words("kept in the cache", "giữ trong cache", "缓存占用"), "0 B")),
    "3A": ((Words("encoder", "bộ mã hoá", "编码器"), "0 … {last_encoder}"), (Words("decoder", "bộ giải mã", "解码器"), "{encoder} … {last}"),
           (Words("token-layers run for a prompt of 100,000", "lượt token-lớp của prompt 100.000 token", "10 万词元提示词的词元层数"), "{share:.2f} %")),
    "3B": ((Words("layers: full, reindex, reuse, window only", "lớp: full, reindex, reuse, chỉ cửa sổ", "层：full、reindex、reuse、仅窗口"),
            "{full}, {reindex}, {reuse}, {window_only}"),
           (Words("one entry", "một entry", "一条条目"), "{C} × ½ B + {scales} B = {entry} B"),
           (Words("open pairs", "các cặp chưa đóng", "未凑满的词元对"), "{tail:,} B")),
    "3C": ((Words("scoring heads", "đầu chấm điểm", "打分头"), "{index_heads} × {K}"),
           (Words("one index key", "một khoá chỉ mục", "一个索引键"), "{K} × ½ B + {key_scales} B = {key} B"),
           (Words("candidate pool", "tập ứng viên", "候选集"), "{pool_blocks:,} × {pool_block} = {pool:,}")),
    "4A": ((Words("heads × latent", "số đầu × latent", "头数 × 潜在维度"), "{H} × {C}"),
           (Words("rotated channels", "kênh được xoay", "旋转通道"), "{R}"),
           (Words("window rings, FP8", "các vòng cửa sổ, FP8", "窗口环，FP8"), "{L} × {window} × {ring_row} B = {rings:,} B")),
    "6A": ((Words("entries", "entry", "条目"), "{main} B"), (Words("index keys", "khoá chỉ mục", "索引键"), "{index} B"),
           (Words("per token", "mỗi token", "每词元"), "{main} + {index} = {total} B"),
           (Words("a million tokens", "một triệu token", "一百万词元"), "{million:,.0f} MB")),
    "5A": ((Words("one expert, FP4", "một chuyên gia, FP4", "一个专家，FP4"), "{expert_bytes:,} B"),
           (Words("read per token", "đọc mỗi token", "每词元读取"), "{L} × {chosen} × {expert_bytes:,} B = {experts_read:.2f} GB")),
    "6B": ((Words("reads the input of layers", "đọc đầu vào của các lớp", "读取这些层的输入"), "{targets}"),
           (Words("draft rings", "các vòng của bộ nháp", "草稿环"), "{draft_layers} × {window} × {ring_row} B = {draft_rings:,} B")),
}  # fmt: skip

# (from, to, kind, what travels, shape); "" is the world outside
EDGES = (
    ("", "1A", "flow", Words("token ids", "id token", "词元 id"), "[B, T]"),
    ("1A", "1B", "flow", Words("equal streams", "các luồng giống nhau", "相同的残差流"), "[B, T, {S}, {D}]"),
    ("1B", "2A", "flow", Words("streams with memory added", "các luồng đã thêm bộ nhớ", "加入记忆的残差流"), "[B, T, {S}, {D}]"),
    ("2A", "3A", "flow", Words("one input per layer", "một đầu vào mỗi lớp", "每层一个输入"), "[B, T, {D}]"),
    ("3A", "3B", "flow", Words("tokens that this layer runs on", "các token mà lớp này xử lý", "本层处理的词元"), "[B, T, {D}]"),
    ("3B", "3C", "flow", Words("latents before rotation", "latent trước khi xoay", "旋转前的潜在向量"), "[B, N, {C}]"),
    ("3B", "6A", "store", Words("entries, {entry} B each", "entry, mỗi entry {entry} B", "条目，每条 {entry} B"), "[B, N, {C}]"),
    ("3C", "6A", "store", Words("index keys, {key} B each", "khoá chỉ mục, mỗi khoá {key} B", "索引键，每个 {key} B"), "[B, N, {K}]"),
    ("6A", "3C", "load", Words("all visible index keys", "mọi khoá chỉ mục thấy được", "所有可见的索引键"), "[B, N, {K}]"),
    ("3C", "4A", "flow", Words("numbers of the chosen rows", "số thứ tự các hàng được chọn", "选中行的编号"), "[B, T, {topk}]"),
    ("4A", "6A", "store", Words("window rows, {ring_row} B each", "hàng cửa sổ, mỗi hàng {ring_row} B", "窗口行，每行 {ring_row} B"), "[B, T, {C}]"),
    ("6A", "4A", "load", Words("chosen entries and window", "entry được chọn và cửa sổ", "选中的条目与窗口"), "[B, T, ≤ {keys}, {C}]"),
    ("4A", "5A", "flow", Words("streams after attention", "các luồng sau chú ý", "注意力之后的残差流"), "[B, T, {S}, {D}]"),
    ("5A", "2A", "back", Words("streams for the next layer", "các luồng cho lớp kế tiếp", "送往下一层的残差流"), "[B, T, {S}, {D}]"),
    ("5A", "6B", "flow", Words("streams after the last layer", "các luồng sau lớp cuối", "最后一层之后的残差流"), "[B, T, {S}, {D}]"),
    ("6B", "", "flow", Words("scores over the vocabulary", "điểm trên từ vựng", "词表上的分数"), "[B, T, {V}]"),
    ("6B", "1A", "back", Words("the next token, with up to {drafts} drafts", "token kế tiếp, kèm tối đa {drafts} token nháp",
                               "下一个词元，附带至多 {drafts} 个草稿"), "[B, 1 … {verified}]"),
    ("6B", "6A", "back", Words("accepted length", "độ dài được chấp nhận", "被接受的长度"), "[B]"),
)  # fmt: skip

READING = Words(
    "What this label covers is our reading of the diagram that the ten labels come from; nothing official fixes it.",
    "Phạm vi của nhãn này là cách hiểu của chúng tôi về sơ đồ gốc của mười nhãn; không có nguồn chính thức nào xác định.",
    "这个标号涵盖什么，是我们对十个标号所出自的那张图的理解，并无官方定义。",
)

UI = {
    "title": Words("Map of the model", "Bản đồ mô hình", "模型地图"),
    "all": Words("All ({count})", "Tất cả ({count})", "全部（{count}）"),
    "filter": Words("Filter by column", "Lọc theo cột", "按列筛选"),
    "hide": Words("Hide overlay", "Ẩn khung", "隐藏浮层"), "show": Words("Show overlay", "Hiện khung", "显示浮层"),
    "language": Words("Language", "Ngôn ngữ", "语言"), "path": Words("Path of a token", "Đường đi của token", "词元的路径"),
    "play": Words("Play", "Phát", "播放"), "pause": Words("Pause", "Dừng", "暂停"),
    "back": Words("Step back", "Lùi một bước", "后退一步"), "next": Words("Step on", "Tiến một bước", "前进一步"),
    "step": Words("Step", "Bước", "步骤"), "off": Words("Leave the path", "Rời đường đi", "离开路径"), "close": Words("Close the card", "Đóng thẻ", "关闭卡片"),
    "in": Words("In", "Vào", "输入"), "out": Words("Out", "Ra", "输出"), "numbers": Words("Numbers", "Con số", "数字"),
    "trace": Words("In one run of the apprentice", "Trong một lần chạy của mô hình nhỏ", "小模型的一次运行"), "links": Words("Where it is", "Nằm ở đâu", "所在位置"),
    "chapter": Words("chapter", "chương", "章节"), "lab": Words("lab step", "bước lab", "实验步骤"), "code": Words("code", "mã nguồn", "代码"),
    "more": Words("see also", "xem thêm", "另见"), "later": Words("to come", "sắp có", "即将推出"),
    "world": Words("outside", "bên ngoài", "外部"),
    "flow": Words("along the path", "dọc đường đi", "沿路径"), "store": Words("store and load", "lưu và nạp", "存储与读取"),
    "loop": Words("back for the next round", "quay lại cho vòng sau", "回到下一轮"),
    "column": Words("Column", "Cột", "列"), "block": Words("Block", "Khối", "块"), "purpose": Words("What it does", "Nhiệm vụ", "作用"),
    "hint": Words("Press a block for its card, a column's title to see that column alone, or follow a token along its path.",
                  "Bấm một khối để xem thẻ, bấm tên cột để chỉ xem cột đó, hoặc đi theo một token.",
                  "点按一个块查看卡片，点按列标题只看该列，或跟随一个词元走完路径。"),
}  # fmt: skip
