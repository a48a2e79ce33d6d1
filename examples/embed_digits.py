"""Digits in two and five dimensions: trustworthiness, new samples, and a picture."""

from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from sk_stormc import SNEEmbedding
from sk_stormc.plotting import plot_embeddings

X, y = load_digits(return_X_y=True)
X_train, X_new, y_train, y_new = train_test_split(X, y, test_size=500, random_state=0, stratify=y)
panels = {}
for kernel, d in (("gaussian", 2), ("gaussian", 5), ("student-t", 2)):
    model = SNEEmbedding(d, kernel=kernel, random_state=0).fit(X_train)
    T5 = trustworthiness(X_train, model.embedding_, n_neighbors=5)
    accuracy = KNeighborsClassifier(10).fit(model.embedding_, y_train).score(model.transform(X_new), y_new)
    print(f"{kernel:10} d={d}  KL {model.kl_divergence_:.3f}  trustworthiness {T5:.4f}  new samples {accuracy:.3f}")
    panels[f"{kernel}, d={d}"] = model.embedding_
plot_embeddings(panels, y_train).savefig("digits.png")
